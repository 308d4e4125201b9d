"""The join among Spark's own stateful operators, in one query, over a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

import tailrace
from streams import Row, Streams, join, second

if TYPE_CHECKING:
    from tailrace.testing import StreamTest


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    return Streams(stream_test)


@pytest.mark.slow
def test_a_windowed_aggregation_after_the_join_counts_every_group(streams: Streams) -> None:
    counted = (
        streams.join()
        .groupBy(sf.window("l_ts", "60 seconds"))
        .agg(sf.count("*").alias("rows"), sf.sum(sf.size("labels")).alias("matched"))
    )
    with streams.query(counted) as query:
        for step in range(4):
            left = [Row(step * 10 + i, i, step * 60 + 7 * i) for i in range(8)]
            streams.add(left, [Row(r.id, r.key, r.second + 29) for r in left])
            query.run()
            if step == 1:
                query.restart()
        # Two steps: the join's groups reach the aggregation first, then the watermark closes its windows.
        for i, end in enumerate([1000, 2000]):
            streams.add([Row(900 + i, 9, end)], [Row(900 + i, 9, end)])
            query.run()
        rows = {second(r["window"]["start"]): (r["rows"], r["matched"]) for r in query.rows()}
    assert {start: rows[start] for start in (0, 60, 120, 180)} == dict.fromkeys((0, 60, 120, 180), (8, 8))


def test_two_joins_in_a_chain_give_all_groups(streams: Streams) -> None:
    first = streams.join(into="first").select("l_id", "key", "l_ts", "first")
    right = streams.frame("right").toDF("s_id", "key", "s_ts", "s_note")
    chained = tailrace.join(
        first, right, on="key", left_time="l_ts", right_time="s_ts", after="60 seconds", into="second"
    )
    with streams.query(chained) as query:
        streams.add([Row(1, 1, 100), Row(2, 2, 100)], [Row(11, 1, 110), Row(12, 1, 150)])
        query.run()
        query.restart()
        for i, end in enumerate([1000, 2000]):
            streams.add([Row(900 + i, 9, end)], [Row(900 + i, 9, end)])
            query.run()
        rows = {
            r["l_id"]: ([m["r_id"] for m in r["first"]], [m["s_id"] for m in r["second"]])
            for r in query.rows()
        }
    assert {k: rows[k] for k in (1, 2)} == {1: ([11], [11, 12]), 2: ([], [])}


def test_deduplication_before_the_join_keeps_sparks_own_store(streams: Streams) -> None:
    once = streams.frame("left").dropDuplicatesWithinWatermark(["l_id"])
    with streams.query(join(once, streams.frame("right"))) as query:
        streams.add([Row(1, 1, 100)], [Row(11, 1, 110)])
        query.run()
        query.restart()
        streams.add([Row(1, 1, 100)])
        query.run()
        for i, end in enumerate([1000, 2000]):
            streams.add([Row(900 + i, 9, end)], [Row(900 + i, 9, end)])
            query.run()
        assert [r["l_id"] for r in query.rows() if r["l_id"] < 900] == [1]
