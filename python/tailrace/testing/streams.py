"""Streams that a test feeds row by row, with one clock for their queries."""

# A test notifies its queries of its end.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from tailrace._bridge import calls
from tailrace.testing.clock import Time, at, check_order, from_millis, millis
from tailrace.testing.query import StreamQuery
from tailrace.testing.values import Given, pickled, struct

if TYPE_CHECKING:
    import datetime as dt
    import os
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PROVIDER = "io.tailrace.testing.TestRowsProvider"


class StreamTest:
    """Streams and queries of one test, with one clock.

        with StreamTest(spark, tmp_path) as test:
            served = test.source("user int, served_at timestamp")
            query = test.query(served.frame.withWatermark("served_at", "10 minutes")...)
            served.add((7, "12:00"), (8, "12:01"))
            query.run()

    Micro-batches run when `run` or `advance` is called, and then until none is left to run. Their time
    (`current_timestamp()`, rules on idle hosts and stalled partitions) is the test's clock. The rows are in
    the memory of the driver, and go to its tasks with their plan.

    Args:
        spark: a running session with Tailrace.
        directory: of the queries' checkpoints; `tmp_path` of pytest.
        now: the start of the clock.
    """

    def __init__(self, spark: SparkSession, directory: str | os.PathLike[str], now: Time = "00:00") -> None:
        self.spark = spark
        self.directory: Path = Path(directory)
        self._streams = calls.hold("test_streams", spark, start_ms=millis(at(now)))
        self._queries: dict[str, StreamQuery] = {}

    @property
    def now(self) -> dt.datetime:
        """The clock's time."""
        return from_millis(calls.invoke(self._streams, "clockMs"))

    def source(self, schema: str | StructType) -> Source:
        """A new stream without rows.

        Args:
            schema: of its rows: "user int, served_at timestamp", or a StructType.
        """
        return Source(self.spark, self._streams, schema)

    def query(self, frame: DataFrame, name: str = "query", mode: str = "append") -> StreamQuery:
        """Starts a query.

        Args:
            frame: a streaming DataFrame of this test's sources.
            name: of its checkpoint's directory. That of an earlier query is resumed.
            mode: "append", "update" or "complete".

        Raises:
            ValueError: a query of this name runs.
        """
        if name in self._queries and self._queries[name].is_running:
            raise ValueError(f"a query {name!r} runs already: give this one another name, or stop that one")
        query = StreamQuery(self.spark, self._streams, frame, self.directory / name, mode)
        self._queries[name] = query
        return query

    def flush(self) -> None:
        """Makes the added rows of the sources visible to queries that the test has started itself."""
        calls.invoke(self._streams, "flush")

    def advance(self, to: Time) -> None:
        """Moves the clock and event time for the test's queries, each of which sees it when it runs next.

        Args:
            to: a time as `at` reads it.

        Raises:
            ValueError: the clock is behind that time.
        """
        check_order(self.now, at(to))
        calls.invoke(self._streams, "moveTo", millis(at(to)))

    def tick(self) -> None:
        """Makes queries that the test has started itself run a micro-batch without rows.

        Spark runs none for the watermark alone in a query that was just restarted.
        """
        calls.invoke(self._streams, "tick")

    def close(self) -> None:
        """Stops all queries. The sources no longer have rows."""
        for query in self._queries.values():
            query._end_with_test()  # noqa: SLF001  its query
        calls.invoke(self._streams, "close")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Source:
    """A stream of rows that a test adds.

    Attributes:
        frame: the streaming DataFrame.
        schema: of its rows.
    """

    def __init__(self, spark: SparkSession, streams: object, schema: str | StructType) -> None:
        self.schema: StructType = struct(schema)
        self._rows = calls.invoke(streams, "source", self.schema.json())
        stream = spark.readStream.format(_PROVIDER).option("id", calls.invoke(self._rows, "id"))
        self.frame: DataFrame = stream.load()

    def add(self, *rows: Given) -> None:
        """Adds rows. Queries see them, with those of all other sources, when one of them runs next.

            served.add((7, "12:00"), {"user": 8, "served_at": at("12:01")})

        Args:
            rows: tuples of all columns in their order, or dictionaries by name, in which missing columns are
                null; structs likewise. A timestamp may be a text, as `at` reads it, and without a zone is in
                UTC.
        """
        if rows:
            calls.invoke(self._rows, "stage", pickled(self.schema, rows))
