"""A query of a test: it runs when the test requests it, and keeps the emitted rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.functions import col, lit

from tailrace._bridge import calls
from tailrace.testing.clock import Time, at, check_order, from_millis, millis
from tailrace.testing.rows import as_dicts, as_tuples

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_SPARKS_JOIN = "symmetricHashJoin"
_JOINS = ("tailraceLabelJoin", "tailraceSyncJoin", "tailraceAsOf")


class StreamQuery:
    """A query of a test, whose rows are kept. It is stopped when the test ends, or at the end of its `with`.

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
        # For a finished test: whether it ended without an error.
        self._ended_well: bool | None = None
        self._query = calls.invoke(streams, "query", frame, str(checkpoint), mode)

    def run(self) -> None:
        """Reads the added rows of the sources as one micro-batch, and waits until none is left to run.

        Raises:
            StreamingQueryException: the query has failed.
            RuntimeError: it is stopped.
        """
        self._check_runs()
        calls.invoke(self._query, "run")

    def advance(self, to: Time) -> None:
        """Runs, then moves the clock to a time, and event time with it, and runs again.

        Watermarks move as if each stream had received a row of that time: to the time, less their delay. No
        row is emitted for it. `accurate_watermark` and `stamped_watermark` get their time only from rows.
        Idle hosts and partitions follow the clock, and also need eight micro-batches with rows of others.

        Args:
            to: a time as `at` reads it.

        Raises:
            ValueError: the clock is behind that time.
            RuntimeError: the query is stopped.
        """
        self._check_runs()
        check_order(from_millis(calls.invoke(self._streams, "clockMs")), at(to))
        calls.invoke(self._query, "advance", millis(at(to)))

    @property
    def is_running(self) -> bool:
        """True if it hasn't ended: it wasn't stopped, and hasn't failed."""
        return self._ended_well is None and bool(calls.invoke(self._query, "isRunning"))

    @property
    def is_stopped(self) -> bool:
        """True if it has ended without an error."""
        if self._ended_well is None:
            return bool(calls.invoke(self._query, "isStopped"))
        return self._ended_well

    def _end_with_test(self) -> None:
        """Called before its test stops it. Over Spark Connect it answers nothing after that."""
        self._ended_well = self.is_running or self.is_stopped

    def _check_runs(self) -> None:
        if self.is_stopped:
            raise RuntimeError(f"the query of {self.checkpoint.name!r} is stopped: call its restart()")

    def rows(self, *columns: str) -> list[Any]:
        """All emitted rows, micro-batch by micro-batch: in mode "complete" a table per micro-batch.

        The rows of one micro-batch have no order: compare `sorted(query.rows(...))`.

            query.rows()                               # [{"user": 7, "labels": [...]}]
            query.rows("user", "size(labels)")         # [(7, 1)]

        Args:
            columns: SQL expressions. None for all columns.

        Returns:
            A dictionary per row, or a tuple per row if there are columns. Timestamps are in UTC, and a
            year-month interval is the number of its months.
        """
        return self._read(-1, columns)

    def new_rows(self, *columns: str) -> list[Any]:
        """The rows that have been emitted since the last call, as `rows` has them."""
        seen, self._seen = self._seen, calls.invoke(self._query, "lastBatch")
        return self._read(seen, columns)

    def _read(self, after: int, columns: Sequence[str]) -> list[Any]:
        frames = calls.frames(self._spark, self._query, "rowsAfter", after)
        parts = [as_tuples(f.selectExpr(*columns)) if columns else as_dicts(f) for f in frames]
        return [row for part in parts for row in part]

    def watermark(self) -> dt.datetime | None:
        """The watermark that the next micro-batch has; None before the first of this start."""
        number = calls.invoke(self._query, "watermarkMs")
        return from_millis(number) if number > 0 else None

    def watermarks(self) -> dict[str, dt.datetime]:
        """The watermarks of the query's streams, by their columns of event time. The minimum is the query's.

            query.watermarks()    # {"served_at": datetime(2026, 1, 1, 11, 57), "clicked_at": ...}

        A stream without a row since this start has none.
        """
        return {column: from_millis(ms) for column, ms in calls.invoke(self._query, "watermarks").items()}

    def waiting(self) -> dict[str, int]:
        """The entries in the state of each operator after the last micro-batch of this start, by its name.

            query.waiting()    # {"tailraceLabelJoin": 3}

        They are Spark's `numRowsTotal`. For a join these are the rows of `state` and its other entries: with
        the strategy "eager" the key of each left row and the matches that it has found, in a synced join the
        tombstones of evicted right rows.
        """
        return dict(calls.invoke(self._query, "waiting"))

    def state(self, *columns: str, operator: int = 0) -> list[Any]:
        """The rows in the state of an operator after the last micro-batch, in the order of their times.

            query.state("side", "time", "key.user")     # [("left", datetime(2026, 1, 1, 12, 0), 7)]

        Those of a join have the columns of the format "tailrace-state": `side`, `time`, `key`, `left`,
        `right`. Those of Spark's operators have the columns of its format "statestore": `key`, `value`; those
        of its join of two streams have their `side` besides.

        Args:
            columns: SQL expressions. None for all columns.
            operator: its number in the query, from 0, as Spark's format "state-metadata" lists them.

        Returns:
            A dictionary per row, or a tuple per row if there are columns, as from `rows`; none without one.

        Raises:
            ValueError: the query has no operator of this number with state.
        """
        path = str(self.checkpoint)
        if not any((self.checkpoint / "commits").glob("[0-9]*")):
            return []
        listed = self._spark.read.format("state-metadata").load(path)
        names = {row["operatorId"]: row["operatorName"] for row in listed.collect()}
        if operator not in names:
            found = ", ".join(f"{number} ({name})" for number, name in sorted(names.items())) or "none"
            raise ValueError(f"the query has no state of an operator {operator}; it has {found}")
        if names[operator] in _JOINS:
            reader = self._spark.read.format("tailrace-state").option("operator", operator)
            # Maps have no order, and their texts have.
            texts = (col(side).cast("string") for side in ("left", "right"))
            frames = [reader.load(path).orderBy("time", "side", *texts)]
        else:
            reader = self._spark.read.format("statestore").option("operatorId", operator)
            frames = [reader.load(path)] if names[operator] != _SPARKS_JOIN else _sides(reader, path)
        parts = [as_tuples(f.selectExpr(*columns)) if columns else as_dicts(f) for f in frames]
        return [row for part in parts for row in part]

    def progress(self) -> dict[str, Any]:
        """Spark's progress of the last micro-batch of this start; empty before the first.

            query.progress()["stateOperators"][0]["customMetrics"]["lateLeftRows"]

        PySpark's `lastProgress` fails here: with a clock that stands still, there are no rates.
        """
        text = calls.invoke(self._query, "progress")
        progress: dict[str, Any] = {} if text is None else json.loads(text)
        return progress

    def progresses(self) -> list[dict[str, Any]]:
        """Spark's progress of each micro-batch of this start, in order; of the last hundred at most."""
        return [json.loads(text) for text in calls.invoke(self._query, "progresses")]

    def total(self, metric: str, operator: int = 0) -> int:
        """A number of an operator, summed over the micro-batches of this start; of the last hundred at most.

            query.total("lateLeftRows")
            query.total("numRowsDroppedByWatermark")

        Args:
            metric: one of the operator's own metrics, or a number that Spark has for each operator.
            operator: its number in the query, from 0, in the order of Spark's progress.

        Raises:
            ValueError: the operator has no such number, or there is no such operator.
        """
        whole = 0
        for progress in self.progresses():
            operators = progress["stateOperators"]
            if operator not in range(len(operators)):
                raise ValueError(f"the query has no operator {operator} with state; it has {len(operators)}")
            whole += _number(operators[operator], metric)
        return whole

    def changes(self) -> list[str]:
        """A sentence for each micro-batch that ran again and emitted other rows than before.

        A sink that had committed the first ones would be wrong. An exact pipeline has none.
        """
        return list(calls.invoke(self._query, "changes"))

    def stop(self) -> None:
        """Stops it."""
        calls.invoke(self._query, "stop")

    def restart(self, frame: DataFrame | None = None) -> None:
        """Stops it and starts it again on its checkpoint.

        Args:
            frame: another version of the query; None for the same.
        """
        self.stop()
        self._frame = self._frame if frame is None else frame
        calls.invoke(self._query, "start", self._frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _sides(reader: DataFrameReader, path: str) -> list[DataFrame]:
    """The state of Spark's join of two streams: a side's rows have columns of their own."""
    return [
        reader.option("joinSide", side).load(path).withColumn("side", lit(side)) for side in ("left", "right")
    ]


def _number(operator: dict[str, Any], name: str) -> int:
    numbers = {**operator, **operator["customMetrics"]}
    known = {key: number for key, number in numbers.items() if isinstance(number, int)}
    if name not in known:
        raise ValueError(f"{operator['operatorName']} has no {name!r}; it has {', '.join(sorted(known))}")
    return known[name]
