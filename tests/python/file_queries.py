"""A query into Spark's sink of files, which asks for none of the rows of a batch that it has already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tailrace.testing.rows import as_dicts

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class FileQuery:
    """Reads streams of a test, whose `flush` shows it what was added. `run` starts it where it is stopped."""

    def __init__(self, result: DataFrame, root: Path) -> None:
        self.checkpoint = root / "checkpoint"
        self._result = result
        self._out = root / "out"
        self._query: StreamingQuery | None = None

    def run(self) -> None:
        if self._query is None:
            writer = self._result.writeStream.format("parquet").option("path", str(self._out))
            self._query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        self._query.processAllAvailable()

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        self._query = None

    def rows(self) -> list[dict[str, Any]]:
        if not (self._out / "_spark_metadata").exists():
            return []
        return as_dicts(self._result.sparkSession.read.schema(self._result.schema).parquet(str(self._out)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
