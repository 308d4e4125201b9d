"""Streams that a test feeds row by row, and queries over them whose clock it moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tailrace import _jvm
from tailrace.testing.clock import Time, at, from_millis, millis
from tailrace.testing.rows import Given, as_dicts, as_tuples, batch_frame, struct

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Sequence
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

    Micro-batches run when `run` or `advance` is called, and then until nothing is left to do. Their time
    (`current_timestamp()`, rules on idle hosts and stalled partitions) is the test's clock. A session of
    `local[...]` is needed: the rows are in the driver.

    Args:
        spark: a running session with Tailrace.
        directory: of the queries' checkpoints; `tmp_path` of pytest.
        now: where the clock begins.
    """

    def __init__(self, spark: SparkSession, directory: str | os.PathLike[str], now: Time = "00:00") -> None:
        self.spark = spark
        self.directory: Path = Path(directory)
        self._streams = _jvm.test_streams(spark, millis(at(now)))
        self._queries: dict[str, StreamQuery] = {}

    @property
    def now(self) -> dt.datetime:
        """The clock's time."""
        return from_millis(_jvm.invoke(self._streams, "clockMs"))

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
            name: of its checkpoint's directory. An earlier query's is gone on with.
            mode: "append", "update" or "complete".

        Raises:
            ValueError: a query of this name runs.
        """
        if name in self._queries and not self._queries[name].is_stopped:
            raise ValueError(f"a query {name!r} runs already: give this one another name, or stop that one")
        query = StreamQuery(self.spark, self._streams, frame, self.directory / name, mode)
        self._queries[name] = query
        return query

    def flush(self) -> None:
        """Lets queries that the test has started itself see what was added to the sources."""
        _jvm.invoke(self._streams, "flush")

    def advance(self, to: Time) -> None:
        """Moves the clock and event time for all queries, each of which sees it when it runs next.

        Args:
            to: a time as `at` reads it.

        Raises:
            ValueError: the clock is behind that time.
        """
        check_order(self.now, at(to))
        _jvm.invoke(self._streams, "moveTo", millis(at(to)))

    def tick(self) -> None:
        """Lets queries that the test has started itself run a micro-batch without rows.

        Spark runs none for the watermark alone in a query that was just restarted.
        """
        _jvm.invoke(self._streams, "tick")

    def close(self) -> None:
        """Stops all queries. The sources have no rows any more."""
        _jvm.invoke(self._streams, "close")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_order(now: dt.datetime, to: dt.datetime) -> None:
    """Refuses a time that is over.

    Raises:
        ValueError: it is before `now`.
    """
    if millis(to) < millis(now):
        times = f"it is {now:%Y-%m-%d %H:%M:%S}, and {to:%Y-%m-%d %H:%M:%S} is over"
        raise ValueError(f"the clock doesn't go back: {times}")


class Source:
    """A stream of rows that a test adds.

    Attributes:
        frame: the streaming DataFrame.
        schema: of its rows.
    """

    def __init__(self, spark: SparkSession, streams: object, schema: str | StructType) -> None:
        self._spark = spark
        self.schema: StructType = struct(schema)
        self._rows = _jvm.invoke(streams, "source", self.schema.json())
        stream = spark.readStream.format(_PROVIDER).option("id", _jvm.invoke(self._rows, "id"))
        self.frame: DataFrame = stream.load()

    def add(self, *rows: Given) -> None:
        """Adds rows. Queries see them, with those of all other sources, when one of them runs next.

            served.add((7, "12:00"), {"user": 8, "served_at": at("12:01")})

        Args:
            rows: tuples of all columns in their order, or dictionaries by name, in which what is left out is
                null; structs likewise. A timestamp may be a text, as `at` reads it, and without a zone is in
                UTC.
        """
        _jvm.invoke(self._rows, "stage", batch_frame(self._spark, self.schema, rows))


class StreamQuery:
    """A query of a test, whose rows are kept.

    Attributes:
        checkpoint: its directory.
    """

    def __init__(
        self, spark: SparkSession, streams: object, frame: DataFrame, checkpoint: Path, mode: str
    ) -> None:
        self.checkpoint = checkpoint
        self._spark = spark
        self._streams = streams
        self._frame = frame
        self._seen = -1
        self._query = _jvm.invoke(streams, "query", frame, str(checkpoint), mode)

    def run(self) -> None:
        """Takes what was added to the sources as one micro-batch, and waits until nothing is left to do.

        Raises:
            StreamingQueryException: the query has failed.
            RuntimeError: it is stopped.
        """
        self._check_runs()
        _jvm.invoke(self._query, "run")

    def advance(self, to: Time) -> None:
        """Runs, then moves the clock to a time, and event time with it, and runs again.

        Watermarks move as if each stream had got a row of that time: to the time, less their delay. No row
        comes out for it. `accurate_watermark` and `stamped_watermark` get their time from rows alone. Silent
        hosts and partitions follow the clock, and need eight micro-batches with rows of others besides.

        Args:
            to: a time as `at` reads it.

        Raises:
            ValueError: the clock is behind that time.
            RuntimeError: the query is stopped.
        """
        self._check_runs()
        check_order(from_millis(_jvm.invoke(self._streams, "clockMs")), at(to))
        _jvm.invoke(self._query, "advance", millis(at(to)))

    @property
    def is_stopped(self) -> bool:
        """Whether it has ended, without an error."""
        return bool(_jvm.invoke(self._query, "isStopped"))

    def _check_runs(self) -> None:
        if self.is_stopped:
            raise RuntimeError(f"the query of {self.checkpoint.name!r} is stopped: call its restart()")

    def rows(self, *columns: str) -> list[Any]:
        """All rows that have come out, micro-batch by micro-batch: in mode "complete" a table each.

            query.rows()                               # [{"user": 7, "labels": [...]}]
            query.rows("user", "size(labels)")         # [(7, 1)]

        Args:
            columns: SQL expressions. None for all columns.

        Returns:
            A dictionary a row, or a tuple a row if there are columns. Timestamps are in UTC.
        """
        return self._read(-1, columns)

    def new_rows(self, *columns: str) -> list[Any]:
        """The rows that have come out since the last call, as `rows` has them."""
        seen, self._seen = self._seen, _jvm.invoke(self._query, "lastBatch")
        return self._read(seen, columns)

    def _read(self, after: int, columns: Sequence[str]) -> list[Any]:
        frames = _jvm.frames(self._spark, self._query, "rowsAfter", after)
        parts = [as_tuples(f.selectExpr(*columns)) if columns else as_dicts(f) for f in frames]
        return [row for part in parts for row in part]

    def watermark(self) -> dt.datetime | None:
        """The watermark that the next micro-batch has; None before the first of this start."""
        number = _jvm.invoke(self._query, "watermarkMs")
        return from_millis(number) if number > 0 else None

    def waiting(self) -> dict[str, int]:
        """The rows in the state of each operator after the last micro-batch of this start, by its name."""
        return dict(_jvm.invoke(self._query, "waiting"))

    def progress(self) -> dict[str, Any]:
        """What Spark says of the last micro-batch of this start; empty before the first.

            query.progress()["stateOperators"][0]["customMetrics"]["lateLeftRows"]

        PySpark's `lastProgress` has no rates to read where time stands still, and fails.
        """
        text = _jvm.invoke(self._query, "progress")
        progress: dict[str, Any] = {} if text is None else json.loads(text)
        return progress

    def changes(self) -> list[str]:
        """A sentence for each micro-batch that ran again and gave other rows than before.

        A sink that had taken the first ones would be wrong. A pipeline that is exact has none.
        """
        return list(_jvm.invoke(self._query, "changes"))

    def stop(self) -> None:
        """Stops it."""
        _jvm.invoke(self._query, "stop")

    def restart(self, frame: DataFrame | None = None) -> None:
        """Stops it and starts it again on its checkpoint.

        Args:
            frame: another version of the query; None for the same.
        """
        self.stop()
        self._frame = self._frame if frame is None else frame
        _jvm.invoke(self._query, "start", self._frame)
