"""An estimate of a label join of streams from stored rows, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments, calls
from tailrace._estimates import sketches
from tailrace._estimates.landed import CALL, COUNTS, LandedSide, counted
from tailrace._estimates.occupancy import Bytes, Clock, Held, Shape, held

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Row, SparkSession

    from tailrace.options import ColumnOrName, Duration, Key

_RELEASE_STEPS = 64  # of `release_every`, unless it is named (ADR 14)
_CELLS = 64  # of the shortest window
_SAMPLE = 50_000  # rows of a side, whose bytes are measured


@dataclass(frozen=True)
class Preflight:
    """The result of `preflight`. A row of `summary` or `windows` is for one `after` and one watermark delay.

    Attributes:
        summary: `after_seconds` and `delay_seconds` (double). `left_rows` and `right_rows` that arrive;
            `late_left` and `late_right`, those of them that are left out; `open_left`, other left rows whose
            window extends beyond the newest rows. For the rest: `matched`, those with a label; `labels` in
            all groups; `lost_labels`, which late rows take with them (bigint). `match_rate` and
            `labels_per_row` of the rest, and `loss`, the share of labels that are lost (double).

            `state_rows`, `state_bytes` before compression, and `file_bytes` of the runs that hold them: the
            maximum at any time (bigint). A run has about 1 kB of its own, which isn't counted. `latency`
            (array of `quantile`, `seconds`): from a left row's event time until it is emitted, of those that
            are.
        windows: the same up to `loss`, for each window of event time, with `window_start` (timestamp). Left
            rows count by their time, and labels with them; right rows count by theirs.
        disorder: for each `side`, `behind` (array of `quantile`, `seconds`): how far rows are behind a
            watermark without a delay, 0 or more. A watermark delay of this value loses the rows beyond the
            quantile. `rank_error` is that of the sketch, as in `label_maturity`.
    """

    summary: DataFrame
    windows: DataFrame
    disorder: DataFrame


def preflight(
    left: DataFrame,
    right: DataFrame,
    *,
    on: ColumnOrName | Sequence[Key],
    left_time: ColumnOrName,
    right_time: ColumnOrName,
    after: Sequence[Duration],
    before: Duration = "0 seconds",
    delays: Sequence[Duration] = ("10 minutes",),
    left_arrival: ColumnOrName | None = None,
    right_arrival: ColumnOrName | None = None,
    trigger: Duration = "10 seconds",
    release_every: Duration | None = None,
    window: Duration = "1 hour",
    quantiles: Sequence[float] = (0.5, 0.9, 0.99, 0.999),
) -> Preflight:
    """Estimates the output, the state and the losses of a `join` of two streams from stored rows.

        expected = tailrace.preflight(
            impressions, clicks, on=["user_id", "item_id"], left_time="served_at", right_time="clicked_at",
            left_arrival="timestamp", right_arrival="timestamp",
            after=["10 minutes", "30 minutes"], delays=["1 minute", "10 minutes"],
        )
        expected.summary.show()

    It runs a few Spark jobs over the rows, one of them the join with the longest `after`. Then it
    simulates the micro-batches in the driver. Rows are assigned to micro-batches by their arrival, and the
    watermark is the minimum of both streams' newest times less the delay. The join is that of how="left",
    with lazy matching. Rows of a part of the keys give that part of the state.

    Args:
        left: the rows of the left stream: a batch DataFrame with the columns that the stream will have.
        right: those of the right stream.
        on: as in `join`; so are `left_time`, `right_time` and `before`. Rows without a time aren't counted,
            nor are right rows without a key.
        left_time: a timestamp with a time zone.
        right_time: likewise.
        after: as in `join`, one or more of them.
        before: as in `join`.
        delays: of the watermarks of both sides, one or more of them.
        left_arrival: the column of the left side with the arrival time of a row. A timestamp, such as that of
            Kafka's records. Or a whole number that grows in the order of arrival, such as an offset: a row
            then arrives at the newest event time up to there; one task sorts by it. Rows with null arrive at
            their event time. None: all rows do, and none is late.
        right_arrival: that of the right side.
        trigger: from a micro-batch to the next, a millisecond or more.
        release_every: as in `join`.
        window: how long the windows of the report are; they begin at multiples of it, from 1970-01-01 UTC.
        quantiles: of latency and disorder to report, from 0 to 1.

    Raises:
        TailraceJoinError: a frame is a stream, a side has no rows, a column doesn't exist or has another
            type, a duration can't be read, there is no `after` or delay, or what `join` refuses.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.frame(left, "left")
    arguments.frame(right, "right")
    lefts, rights = arguments.Columns(CALL, left), arguments.Columns(CALL, right)
    pairs = arguments.keys(on, lefts, rights)
    for pair in pairs:
        for frame, key in zip((left, right), pair, strict=True):
            calls.check_column(frame, CALL, "on", key)
    ranks = sketches.ranks(quantiles, CALL, "quantiles")
    spark = left.sparkSession
    asked = _Asked(
        after=_several(spark, after=after),
        before=_micros(spark, "before", before),
        delays=_several(spark, delays=delays),
        trigger=_micros(spark, "trigger", trigger, 1000),
        release=_release(spark, release_every),
    )
    length = _micros(spark, "window", window, 1)
    times = lefts.named(left_time=left_time) | rights.named(right_time=right_time)
    arrivals = lefts.named(**arguments.given(left_arrival=left_arrival)) | rights.named(
        **arguments.given(right_arrival=right_arrival)
    )
    sides = [
        LandedSide.of(
            side,
            frame,
            keys,
            time=times[f"{side}_time"],
            arrival=arrivals.get(f"{side}_arrival"),
            trigger=asked.trigger,
        )
        for side, frame, keys in (
            ("left", left, [key for key, _ in pairs]),
            ("right", right, [key for _, key in pairs]),
        )
    ]
    cells = {side.side: side.cells(asked.cell) for side in sides}
    clock = Clock.of(cells["left"], cells["right"])
    behind = [side.behind(clock) for side in sides]
    counts = counted(
        *behind,
        before=asked.before,
        after=asked.after,
        delays=asked.delays,
        window=length,
        end=clock.end,
    )
    sizes = _sizes(left, right, on=pairs, after=asked.after[-1], before=asked.before, **times)
    states = {
        (long, delay): held(clock, cells, sizes, asked.shape(spark, long, delay))
        for long in asked.after
        for delay in asked.delays
    }
    return Preflight(
        _summary(spark, counts, states, ranks), _windows(spark, counts), _disorder(behind, ranks)
    )


@dataclass(frozen=True)
class _Asked:
    """The durations of a call, in microseconds; `after` and `delays` ascend."""

    after: Sequence[int]
    before: int
    delays: Sequence[int]
    trigger: int
    release: int | None

    @property
    def cell(self) -> int:
        """The time that a cell spans."""
        return max(sketches.MICROS, (self.before + self.after[0]) // _CELLS)

    def shape(self, spark: SparkSession, after: int, delay: int) -> Shape:
        length = self.before + after
        buckets = int(spark.conf.get("spark.tailrace.state.bucketsPerWindow", "4") or 4)
        return Shape(
            before=self.before,
            after=after,
            delay=delay,
            step=length // _RELEASE_STEPS if self.release is None else self.release,
            trigger=self.trigger,
            bucket=max(sketches.MICROS, length // buckets),
            fan_in=int(spark.conf.get("spark.tailrace.state.compactionRuns", "32") or 32),
        )


def _micros(spark: SparkSession, argument: str, value: Duration, least: int = 0) -> int:
    return calls.microseconds(spark, CALL, argument, arguments.duration(value, argument), least)


def _several(spark: SparkSession, **named: Sequence[Duration]) -> list[int]:
    ((argument, values),) = named.items()
    if not isinstance(values, list | tuple) or not values:
        raise arguments.refused(CALL, argument, values, 'a list of durations, such as ["10 minutes"]')
    return sorted({_micros(spark, argument, value) for value in values})


def _release(spark: SparkSession, value: Duration | None) -> int | None:
    if value == "batch":
        return 0
    return None if value is None else _micros(spark, "release_every", value)


def _sizes(left: DataFrame, right: DataFrame, **options: object) -> dict[str, Bytes]:
    samples = {"left": left.limit(_SAMPLE), "right": right.limit(_SAMPLE)}
    measured = calls.ask("sampled_state", left, **samples, **options)
    return {
        side: Bytes(one["bytes"] / max(1, one["rows"]), one["file_bytes"] / max(1, one["rows"]))
        for side, one in zip(samples, measured, strict=True)
    }


_COLUMNS = (
    "after / 1e6 AS after_seconds",
    "delay / 1e6 AS delay_seconds",
    *COUNTS,
    "matched / nullif(left_rows - late_left - open_left, 0) AS match_rate",
    "labels / nullif(left_rows - late_left - open_left, 0) AS labels_per_row",
    "lost_labels / nullif(labels + lost_labels, 0) AS loss",
)
_TYPES = "after long, delay long, " + ", ".join(f"{name} long" for name in COUNTS)
_STATE = ("state_rows", "state_bytes", "file_bytes")
_STATE_TYPES = ", ".join(f"{name} long" for name in _STATE)


def _summary(
    spark: SparkSession,
    counts: Sequence[Row],
    states: Mapping[tuple[int, int], Held],
    ranks: Sequence[float],
) -> DataFrame:
    rows = [
        (
            *of,
            *(sum(row[name] for row in counts if (row.after, row.delay) == of) for name in COUNTS),
            *(round(size) for size in (state.rows, state.bytes, state.file_bytes)),
            [(rank, state.latency(rank)) for rank in ranks],
        )
        for of, state in states.items()
    ]
    types = f"{_TYPES}, {_STATE_TYPES}, latency array<struct<quantile:double,seconds:double>>"
    return spark.createDataFrame(rows, types).selectExpr(*_COLUMNS, *_STATE, "latency")


def _windows(spark: SparkSession, counts: Sequence[Row]) -> DataFrame:
    rows: list[tuple[object, ...]] = [tuple(row) for row in counts]
    frame = spark.createDataFrame(rows, f"window_start long, {_TYPES}")
    return frame.selectExpr("timestamp_micros(window_start) AS window_start", *_COLUMNS)


def _disorder(behind: Sequence[LandedSide], ranks: Sequence[float]) -> DataFrame:
    first, second = (
        side.rows.select(F.lit(side.side).alias("side"), F.greatest("behind", F.lit(0)).alias("behind"))
        for side in behind
    )
    sketch = F.col("sketch")
    found = first.unionByName(second).groupBy("side").agg(sketches.of(F.col("behind")).alias("sketch"))
    return found.select(
        "side",
        sketches.quantiles(sketch, ranks).alias("behind"),
        sketches.rank_error(sketch).alias("rank_error"),
    ).orderBy("side")
