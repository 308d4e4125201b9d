"""A sample at a ratio of batch DataFrames, whose windows have exact rates."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from example_frames import SCHEMA, examples, frame
from test_examples_ratio import _AFTER, _OVER, _define, _sampled, _shares, _tables, _weights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_batch_has_the_exact_rate_of_each_window(spark: SparkSession) -> None:
    tables = _tables(spark)
    everything = [row.asDict() for row in _define(*tables).batch().collect()]
    kept = _weights(row.asDict() for row in _sampled(*tables).batch().collect())
    shares = _shares(spark)
    windows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in everything:
        micros = row["at"].timestamp()
        windows[int(micros // _OVER)].append(row)
    assert len(windows) > 2
    expected = {}
    for rows in windows.values():
        positives = sum(len(row["click"]) > 0 for row in rows)
        rate = min(1.0, 2.0 * max(1, positives) / max(1, len(rows) - positives))
        for row in rows:
            mine = rate if not row["click"] else 1.0
            if shares[row["id"]] < mine:
                expected[row["id"]] = 1 / mine
    assert kept == expected
    assert 0 < len(kept) < len(everything)


def test_windows_of_a_batch_begin_at_multiples_of_over_before_1970_too(spark: SparkSession) -> None:
    times = [-161, -160, -159, -1, 0, 1, 159, 160]
    rows = [(i, i, second) for i, second in enumerate(times)]
    impressions, clicks = (
        spark.createDataFrame(some, "id long, user long, s long").selectExpr(
            "id", "user", "timestamp_seconds(s) AS at"
        )
        for some in (rows, [(0, 99, 0)])
    )
    counts = Counter(second // _OVER for second in times)
    assert sorted(counts.items()) == [(-2, 1), (-1, 3), (0, 3), (1, 1)]
    kept = [
        _sampled(impressions, clicks, ratio={"click": 1}, seed=seed).batch().collect() for seed in range(4)
    ]
    found = {row["id"]: row["weight"] for some in kept for row in some}
    assert found == {i: float(counts[times[i] // _OVER]) for i in found}
    assert {times[i] // _OVER for i in found} == {-2, -1, 0, 1}


def test_a_batch_counts_no_orphan_and_no_example_without_a_time_in_a_window(spark: SparkSession) -> None:
    impressions = frame(spark, *((i, i, 1) for i in range(8))).unionByName(
        spark.createDataFrame([(100 + i, i, None) for i in range(4)], SCHEMA)
    )
    # None of them has an impression, and one has no key.
    clicks = frame(spark, *((i, 99, 1) for i in range(20)), (30, None, 1))
    found: dict[tuple[str | None, bool], list[float | None]] = defaultdict(list)
    for seed in range(6):
        made = examples(impressions, orphans=True)
        made = made.label("click", clicks, time="at", after=f"{_AFTER} seconds")
        for row in made.sample(ratio={"click": 1}, seed=seed, over="1 hour").batch().collect():
            found[row["_mark"], row["id"] is None or row["id"] >= 100].append(row["weight"])
    # Eight negatives in the hour, four without one, and no positive: of each, one is kept on average.
    assert set(found.pop((None, False))) == {8.0}
    assert set(found.pop((None, True))) == {4.0}
    assert {mark: set(weights) for (mark, _), weights in found.items()} == {
        "unmatched_right": {None},
        "null_right": {None},
    }
