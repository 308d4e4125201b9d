"""Rows that have been landed, as streams would bring them: in micro-batches, some of them late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments, calls
from tailrace._estimates.occupancy import Cell, Clock
from tailrace.errors import TailraceJoinError
from tailrace.join import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row

CALL = "tailrace.preflight"
COUNTS = (
    *("left_rows", "right_rows", "late_left", "late_right"),
    *("open_left", "matched", "labels", "lost_labels"),
)


@dataclass(frozen=True)
class LandedSide:
    """A side of a join.

    Attributes:
        side: "left" or "right".
        rows: `key0` and so on, `time`, and `tick`, the micro-batch that the row comes in.
        keys: the names of the keys there.
    """

    side: str
    rows: DataFrame
    keys: Sequence[str]

    @staticmethod
    def of(
        side: str, frame: DataFrame, on: Sequence[str], *, time: str, arrival: str | None, trigger: int
    ) -> LandedSide:
        """The rows of a frame that have a time, and a key if they are right rows.

        Args:
            side: "left" or "right".
            frame: the user's.
            on: the key columns.
            time: the column of the event time.
            arrival: the column of the arrival; None: rows arrive at their event time.
            trigger: from a micro-batch to the next, in microseconds.

        Raises:
            TailraceJoinError: the frame is a stream, or a column isn't there or has another type.
        """
        if frame.isStreaming:
            allowed = "a batch DataFrame: rows that have been landed"
            raise arguments.refused(CALL, side, "a stream", allowed)
        calls.check_time(frame, CALL, f"{side}_time", time)
        moment, keys = arguments.named(time), [arguments.named(key) for key in on]
        rows = frame.where(moment.isNotNull())
        if side == "right":
            for key in keys:
                rows = rows.where(key.isNotNull())
        micros = F.unix_micros(moment)
        arrived = micros if arrival is None else F.coalesce(_arrived(side, frame, arrival, micros), micros)
        names = [f"key{i}" for i in range(len(keys))]
        tick = F.floor(arrived / trigger).alias("tick")
        columns = [key.alias(name) for key, name in zip(keys, names, strict=True)]
        return LandedSide(side, rows.select(*columns, moment.alias("time"), tick), names)

    def cells(self, length: int) -> list[Cell]:
        """Its rows in cells of the given number of microseconds.

        Raises:
            TailraceJoinError: there are none.
        """
        cell = F.floor(_micros() / length)
        found = self.rows.groupBy("tick", cell).agg(F.max(_micros()), F.count("*")).collect()
        if not found:
            given = "a DataFrame without rows that have a time and a key"
            raise arguments.refused(CALL, self.side, given, "one with such rows")
        return [Cell(int(row[0]), int(row[2]), int(row[3])) for row in found]

    def behind(self, clock: Clock) -> LandedSide:
        """Adds `behind`: how far a row is behind a watermark without a delay. Null if there is none yet.

        A row is late with a delay of that or less.
        """
        known = [(tick, clock.before(tick - 1)) for tick in clock.ticks]
        seen = self.rows.sparkSession.createDataFrame(known, "tick long, seen long")
        rows = self.rows.join(F.broadcast(seen), "tick").withColumn("behind", F.col("seen") - _micros())
        return LandedSide(self.side, rows, self.keys)


def _arrived(side: str, frame: DataFrame, arrival: str, micros: Column) -> Column:
    calls.check_column(frame, CALL, f"{side}_arrival", arrival)
    column = arguments.named(arrival)
    kind = frame.select(column).schema[0].dataType.typeName()
    if kind == "timestamp":
        return F.unix_micros(column)
    if kind in ("byte", "short", "integer", "long"):
        return F.max(micros).over(Window.orderBy(column))
    raise TailraceJoinError(
        f"`{side}_arrival` names the column {arrival}, which has the type {kind}. It has to be a timestamp, "
        "or a whole number that grows in the order of arrival.",
        condition="TAILRACE_COLUMN_TYPE",
        parameters={"argument": f"{side}_arrival", "column": arrival, "type": kind},
    )


def counted(
    left: LandedSide,
    right: LandedSide,
    *,
    before: int,
    after: Sequence[int],
    delays: Sequence[int],
    window: int,
    end: int,
) -> list[Row]:
    """Counts arriving, emitted and lost rows: a row per window, `after` and delay, in order, with `COUNTS`.

    Args:
        left: with `behind`.
        right: with `behind`.
        before: of the join's window; all durations are in microseconds.
        after: several of them.
        delays: of the watermark.
        window: that the counts are for.
        end: of the rows: nothing is known beyond it.
    """
    groups = join(
        left.rows.select(*left.keys, "time", "behind"),
        right.rows.select(*right.keys, F.struct("time", "behind").alias("label"), "time"),
        on=list(left.keys),
        left_time="time",
        right_time="time",
        before=f"{before} microseconds",
        after=f"{max(after)} microseconds",
    )
    each = [(long, delay) for long in after for delay in delays]
    start = (_micros() - F.pmod(_micros(), F.lit(window))).alias("window_start")
    of_left = groups.select(start, F.inline(F.array(*(_of_group(*one, end) for one in each))))
    of_right = right.rows.select(start, F.inline(F.array(*(_of_row(*one, before) for one in each))))
    by, zero = ("window_start", "after", "delay"), F.lit(0).cast("bigint")
    lefts = of_left.groupBy(*by).agg(
        F.count("*").alias("left_rows"),
        zero.alias("right_rows"),
        F.count_if("is_late").alias("late_left"),
        zero.alias("late_right"),
        F.count_if("is_open").alias("open_left"),
        F.count_if(F.col("kept") > 0).alias("matched"),
        F.sum("kept").alias("labels"),
        F.sum(F.col("reached") - F.col("kept")).alias("lost_labels"),
    )
    rights = of_right.groupBy(*by).agg(
        F.count("*").alias("right_rows"),
        F.count_if("is_late").alias("late_right"),
        *(zero.alias(name) for name in COUNTS if name not in ("right_rows", "late_right")),
    )
    both = lefts.unionByName(rights).groupBy(*by).agg(*(F.sum(name).alias(name) for name in COUNTS))
    return both.orderBy(*by).collect()


def _micros() -> Column:
    return F.unix_micros("time")


def _is_late(behind: Column, delay: int) -> Column:
    return F.coalesce(behind >= delay, F.lit(False))


def _of_row(after: int, delay: int, before: int = 0) -> Column:
    """A row's part in the counts. A late one is accepted while a window that it belongs to is open."""
    return F.struct(
        F.lit(after).cast("bigint").alias("after"),
        F.lit(delay).cast("bigint").alias("delay"),
        _is_late(F.col("behind"), delay + after + before).alias("is_late"),
    )


def _of_group(after: int, delay: int, end: int) -> Column:
    """The labels within `after`, and those of them that neither side's lateness takes.

    A late label is there if its row's window is still open when it comes. A row whose window goes beyond the
    end has none: those that are there would be too few.
    """
    last = _micros() + after
    reached = F.filter("labels", lambda label: F.unix_micros(label["time"]) <= last)

    def is_there(label: Column) -> Column:
        behind = label["label"]["behind"]
        away = F.unix_micros(label["time"]) - _micros()
        return ~_is_late(behind, delay) | ~_is_late(behind + away, delay + after)

    kept = F.filter(reached, is_there)
    row, is_open = _of_row(after, delay), last > end
    return (
        row.withField("is_open", is_open & ~row["is_late"])
        .withField("kept", F.when(is_open | row["is_late"], 0).otherwise(F.size(kept)))
        .withField("reached", F.when(is_open, 0).otherwise(F.size(reached)))
    )
