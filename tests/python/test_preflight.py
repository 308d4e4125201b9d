"""`tailrace.preflight` against brute force over the same rows, and against a run of the stream over them."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

import landed_streams
import tailrace
from landed_streams import NOON, TRIGGER, Event
from tailrace import TailraceJoinError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ON: dict[str, Any] = {"on": "key", "left_time": "l_ts", "right_time": "r_ts"}
ARRIVALS: dict[str, Any] = {"left_arrival": "l_arrived", "right_arrival": "r_arrived"}
WINDOW = 900
CLOSE = 0.2


def rows_of(seed: int, left: int, right: int, minutes: int) -> dict[str, list[Event]]:
    rng = random.Random(seed)
    return {
        "left": landed_streams.events(rng, left, minutes, 60),
        "right": landed_streams.events(rng, right, minutes, 200),
    }


def frames_of(spark: SparkSession, rows: dict[str, list[Event]]) -> list[DataFrame]:
    return [spark.createDataFrame(landed_streams.table(side, found)) for side, found in rows.items()]


class Brute:
    """What comes and is lost, with each row judged by itself."""

    NAMES = (
        *("left_rows", "right_rows", "late_left", "late_right"),
        *("open_left", "matched", "labels", "lost_labels"),
    )

    def __init__(self, rows: dict[str, list[Event]]) -> None:
        self.left = rows["left"]
        self.right = [row for row in rows["right"] if row.key is not None]
        self.end = self.seen(10**12)

    def seen(self, tick: int) -> float:
        """The least of both streams' newest times before a micro-batch, in whole milliseconds as in Spark."""
        sides = ([row.second for row in side if row.tick < tick] for side in (self.left, self.right))
        least = min(max(side, default=-math.inf) for side in sides)
        return least if least == -math.inf else math.floor(least * 1000) / 1000

    def is_late(self, row: Event, delay: int) -> bool:
        return row.second <= self.seen(row.tick - 1) - delay

    def is_open(self, row: Event, label: Event, wait: int) -> bool:
        """Whether the row still waits when the label comes."""
        return row.second > self.seen(label.tick - 1) - wait

    def counts(self, after: int, delay: int) -> dict[float, dict[str, int]]:
        """By the start of each window."""
        found: dict[float, dict[str, int]] = {}

        def at(row: Event) -> dict[str, int]:
            return found.setdefault((NOON + row.second) // WINDOW * WINDOW, dict.fromkeys(self.NAMES, 0))

        late = {id(row): self.is_late(row, delay) for row in (*self.left, *self.right)}
        for row in self.right:
            at(row)["right_rows"] += 1
            at(row)["late_right"] += self.is_late(row, delay + after)
        for row in self.left:
            is_late, is_open = self.is_late(row, delay + after), row.second + after > self.end
            at(row)["left_rows"] += 1
            at(row)["late_left"] += is_late
            at(row)["open_left"] += is_open and not is_late
            if not is_open:
                reached = [r for r in self.right if r.key == row.key and 0 <= r.second - row.second <= after]
                taken = [r for r in reached if not late[id(r)] or self.is_open(row, r, delay + after)]
                kept = [] if is_late else taken
                at(row)["matched"] += bool(kept)
                at(row)["labels"] += len(kept)
                at(row)["lost_labels"] += len(reached) - len(kept)
        return found


def check_counts(
    spark: SparkSession,
    landed: dict[str, list[Event]],
    rows: dict[str, list[Event]],
    **arrivals: Any,  # noqa: ANN401 - arguments of tailrace.preflight
) -> None:
    """Compares a preflight of rows that have been landed with the rows as they are to arrive."""
    afters, delays = [60, 300], [0, 120]
    left, right = frames_of(spark, landed)
    expected = tailrace.preflight(
        left,
        right,
        **ON,
        **arrivals,
        after=[f"{after} seconds" for after in afters],
        delays=[f"{delay} seconds" for delay in delays],
        trigger="1 minute",
        window=f"{WINDOW} seconds",
    )
    brute = Brute(rows)
    windows = expected.windows.selectExpr("unix_seconds(window_start) AS start", "*").collect()
    summary = expected.summary.collect()
    combinations = [(after, delay) for after in afters for delay in delays]
    assert [(row.after_seconds, row.delay_seconds) for row in summary] == combinations
    for row, (after, delay) in zip(summary, combinations, strict=True):
        counts = brute.counts(after, delay)
        of = [w for w in windows if (w.after_seconds, w.delay_seconds) == (after, delay)]
        assert {w.start: {name: w[name] for name in Brute.NAMES} for w in of} == counts
        sums = {name: sum(window[name] for window in counts.values()) for name in Brute.NAMES}
        assert {name: row[name] for name in Brute.NAMES} == sums
        rest = sums["left_rows"] - sums["late_left"] - sums["open_left"]
        assert row.match_rate == sums["matched"] / rest
        assert row.labels_per_row == sums["labels"] / rest
        assert row.loss == sums["lost_labels"] / (sums["labels"] + sums["lost_labels"])
        # Each kind of row is there, so that each is counted. A label is late where no row waits for it.
        assert all(sums.values()) or delay or after > min(afters)


@pytest.mark.contract(any_spark=True)
def test_counts_of_all_windows_are_those_of_brute_force(spark: SparkSession) -> None:
    rows = rows_of(1, 150, 200, 20)
    check_counts(spark, rows, rows, **ARRIVALS)


@pytest.mark.campaign
def test_rows_with_a_number_arrive_at_the_newest_time_before_them(spark: SparkSession) -> None:
    landed = rows_of(3, 300, 300, 30)
    rows = {}
    for side, found in landed.items():
        newest = itertools.accumulate((row.second for row in found), max)
        rows[side] = [row._replace(arrived=at) for row, at in zip(found, newest, strict=True)]
    check_counts(spark, landed, rows, left_arrival="l_seq", right_arrival="r_seq")


@pytest.mark.campaign
def test_a_run_of_the_stream_measures_what_was_expected(spark: SparkSession, tmp_path: Path) -> None:
    rows = rows_of(7, 9_000, 9_000, 17)
    frames = {
        side: spark.read.parquet(landed_streams.land(tmp_path, side, found)) for side, found in rows.items()
    }
    left, right = frames.values()
    (expected,) = tailrace.preflight(
        left, right, **ON, **ARRIVALS, after=["4 minutes"], delays=["1 minute"], trigger="1 minute"
    ).summary.collect()
    first = min(row.tick for side in rows.values() for row in side)
    run = landed_streams.run(spark, tmp_path, frames, "1 minute", first, after="4 minutes")
    groups = run.sums["groupsEmitted"]
    assert groups > 4000
    assert (expected.late_left, expected.late_right) == (run.sums["lateLeftRows"], run.sums["lateRightRows"])
    assert expected.match_rate == pytest.approx(run.sums["groupsMatched"] / groups, rel=CLOSE / 4)
    assert expected.labels_per_row == pytest.approx(run.sums["labelsEmitted"] / groups, rel=CLOSE / 4)
    assert expected.state_rows == pytest.approx(run.most["rows"], rel=CLOSE / 4)
    assert expected.state_bytes == pytest.approx(run.most["bytes"], rel=CLOSE / 4)
    assert expected.file_bytes == pytest.approx(run.most["stateFileBytes"], rel=CLOSE)
    latencies = sorted(run.latencies)
    for quantile, seconds in expected.latency:
        assert seconds == pytest.approx(latencies[int(quantile * len(latencies))], abs=TRIGGER / 4)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"after": []}, "TAILRACE_OPTION_INVALID.*`after` of .* a list of durations"),
        ({"delays": "1 minute"}, "TAILRACE_OPTION_INVALID.*`delays` of .* a list of durations"),
        ({"trigger": "0 seconds"}, "TAILRACE_OPTION_INVALID.*`trigger`"),
        ({"left_time": "served_at"}, "TAILRACE_COLUMN_NOT_FOUND.*`served_at`"),
        (
            {"right_arrival": "r_note"},
            "TAILRACE_COLUMN_TYPE.*`right_arrival` names the column r_note, .* string",
        ),
        ({"on": "impression_id"}, "TAILRACE_COLUMN_NOT_FOUND.*`on` of .*`impression_id`"),
        ({"left_arrival": "when"}, "TAILRACE_COLUMN_NOT_FOUND.*`when`"),
        ({}, "TAILRACE_OPTION_INVALID.*`left` of .* without rows that have a time and a key"),
    ],
)
def test_what_makes_no_sense_is_refused(spark: SparkSession, changed: dict[str, Any], said: str) -> None:
    left, right = (frame.limit(0) for frame in frames_of(spark, rows_of(1, 20, 20, 5)))
    with pytest.raises(TailraceJoinError, match=said):
        tailrace.preflight(left, right, **(ON | {"after": ["1 minute"]} | changed))


def test_a_stream_is_refused(spark: SparkSession) -> None:
    (left, right) = frames_of(spark, rows_of(1, 20, 20, 5))
    stream = spark.readStream.format("rate").load().selectExpr("value AS key", "timestamp AS l_ts")
    with pytest.raises(TailraceJoinError, match=r"TAILRACE_OPTION_INVALID.*`left` of .* 'a stream'"):
        tailrace.preflight(stream, right, **ON, after=["1 minute"])
    with pytest.raises(TypeError, match="`right` must be a pyspark"):
        tailrace.preflight(left, None, **ON, after=["1 minute"])  # type: ignore[arg-type]
