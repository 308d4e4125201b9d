"""The synced join, end to end: what comes out and when, by hand and against plain reckoning."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from streams import second
from synced import SCHEMA, Model, Row, Synced, new, shown, write

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing import StreamTest


@pytest.fixture
def streams(stream_test: StreamTest) -> Synced:
    return Synced(stream_test)


def test_a_left_row_waits_for_the_slowest_right_partition(streams: Synced) -> None:
    streams.add(left=[Row(1, 0, 0), Row(2, 0, 1)], right=[Row(1, 0, 1), Row(90, 0, 8), Row(91, 1, 3)])
    with streams.query() as query:
        # Partition 0 is at 8, partition 1 at 3: less 5 seconds that is before both.
        assert new(query) == []
        streams.add(right=[Row(2, 1, 4), Row(92, 1, 6)])
        assert new(query) == [(1, 0, 1)]
        # Partition 0 is at 8, and 1 at 10: what is before 3.
        streams.add(right=[Row(93, 1, 10)])
        assert new(query) == [(2, 1, 4)]


def test_a_row_without_a_match_comes_out_when_it_is_sure(streams: Synced) -> None:
    streams.add(left=[Row(1, 0, 0), Row(2, 0, 1)], right=[Row(90, 0, 5)])
    with streams.query() as query:
        assert new(query) == []
        streams.add(right=[Row(91, 0, 6), Row(2, 0, 2)])
        # Exactly 5 seconds past 1 is not past it.
        assert new(query) == [(1, 0, None)]
        streams.add(right=[Row(92, 0, 7)])
        assert new(query) == [(2, 1, 2)]


def test_rows_without_a_key_or_a_time(streams: Synced) -> None:
    streams.add(
        left=[Row(None, 0, 0), Row(3, 0, None)], right=[Row(None, 0, 9), Row(3, 0, None), Row(90, 0, 2)]
    )
    with streams.query() as query:
        assert new(query) == [(3, None, None), (None, 0, None)]


@pytest.mark.contract
def test_duplicates(streams: Synced) -> None:
    left = [Row(1, 0, 0), Row(1, 0, 2), Row(2, 0, 1)]
    right = [Row(1, 0, 3), Row(1, 0, 2), Row(2, 0, 4), Row(90, 0, 20)]
    expected: dict[str, list[tuple[Any, ...]]] = {
        "emit": [(1, 0, 2), (1, 2, None), (2, 1, 4)],
        "drop": [(1, 0, 2), (2, 1, 4)],
        "mark": [(1, 0, 2), (1, 2, None), (1, None, 3), (2, 1, 4)],
    }
    streams.add(left, right)
    for policy, rows in expected.items():
        with streams.query(policy, on_duplicate=policy) as query:
            assert new(query) == sorted(rows, key=repr), policy
            assert query.total("duplicateLeft") == query.total("duplicateRight") == 1
            marked = [shown(r) for r in query.rows() if r.get("_mark") == "duplicate"]
            assert sorted(marked, key=repr) == ([(1, 2, None), (1, None, 3)] if policy == "mark" else [])


@pytest.mark.parametrize("emit", [False, True])
def test_a_right_row_waits_for_the_slowest_left_partition(streams: Synced, emit: bool) -> None:
    options = {"on_unmatched_right": "emit"} if emit else {}
    streams.add(left=[Row(80, 0, 0), Row(81, 1, 0)], right=[Row(7, 0, 3)])
    with streams.query(**options) as query:
        assert new(query) == []
        streams.add(left=[Row(82, 0, 70)], right=[Row(90, 0, 80)])
        # Left partition 0 is a minute past it, partition 1 isn't.
        assert new(query) == [(80, 0, None), (81, 0, None), (82, 70, None)]
        streams.add(left=[Row(83, 1, 64)])
        assert new(query) == [(83, 64, None)]
        # A left row may jump back by 5 seconds.
        streams.add(left=[Row(84, 1, 69)])
        assert new(query) == sorted([(84, 69, None), *([(7, None, 3)] if emit else [])], key=repr)
        assert query.total("unmatchedRight") == 1


@pytest.mark.slow
def test_the_result_depends_on_the_data_alone(streams: Synced, tmp_path: Path) -> None:
    """Ids that both sides have, at any distance, read in batches of one file, of three, and all at once."""
    rng = random.Random(5)
    files: dict[str, list[Row]] = {"left": [], "right": []}
    for number in range(40):
        at = 10 + rng.randrange(40)
        files["left"].append(Row(number, 0, at))
        files["right"].append(Row(number, 0, at + rng.choice([-21, -20, -7, 0, 5, 6, 12])))
    for rows in files.values():
        rows.append(Row(None, 0, 10**5))
        rows.sort(key=lambda r: r.second or 0)
    for side, rows in files.items():
        (tmp_path / side).mkdir()
        for number in range(7):
            write(tmp_path / side, number, rows[6 * number : 6 * number + 6])
    lefts, rights = ({r.id: r.second or 0 for r in files[side] if r.id is not None} for side in files)
    expected = sorted((i, t, rights[i] if -20 <= rights[i] - t <= 5 else None) for i, t in lefts.items())
    assert 0 < sum(right is None for _, _, right in expected) < 40
    for most in (1, 3, 100):
        sides = (
            streams.test.spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", most)
            .parquet(str(tmp_path / side))
            for side in files
        )
        joined = streams.join(window="20 seconds", sides=sides)
        with streams.test.query(joined, f"query-{most}") as query:
            query.run()
            out = sorted(shown(row) for row in query.rows() if row["id"] is not None)
            assert out == expected, most
            assert query.total("tooFar") == sum(right is None for _, _, right in expected)


def test_windows_after_it_lose_nothing(streams: Synced) -> None:
    sides = (streams.frame(side).withWatermark("created", "1 second") for side in ("left", "right"))
    joined = streams.join(sides=sides)
    has_watermark = {f.name for f in joined.schema if "spark.watermarkDelayMs" in f.metadata}
    assert has_watermark == {"created"}, "right rows may be older than left ones that wait"
    windows = joined.groupBy(F.window("created", "10 seconds")).count()
    streams.add(left=[Row(n, 0, n) for n in range(10)], right=[Row(0, 0, 30), Row(91, 1, 1)])
    with streams.test.query(windows.select("window.start", "count")) as query:
        query.run()
        # The watermark is far beyond what partition 1 holds.
        streams.add(left=[Row(50, 0, 40)], right=[Row(92, 0, 40)])
        query.run()
        assert query.rows() == []
        # Rows that the join releases close a window behind it, without more input.
        streams.add(right=[Row(93, 1, 45)])
        query.run()
        assert [(second(row["start"]), row["count"]) for row in query.rows()] == [(0, 10)]
        assert [query.total("numRowsDroppedByWatermark", operator) for operator in (0, 1)] == [0, 0]


@pytest.mark.parametrize(
    ("types", "unmatched"), [("int long", "drop"), ("long int", "drop"), ("int long", "emit")]
)
def test_numeric_keys_of_two_types(streams: Synced, types: str, unmatched: Literal["drop", "emit"]) -> None:
    left, right = (
        streams.frame(side).withColumn("id", F.col("id").cast(to))
        for side, to in zip(("left", "right"), types.split(), strict=True)
    )
    joined = streams.join(sides=(left, right), window="20 seconds", on_unmatched_right=unmatched)
    # A right row that comes out alone may have a key that the left type has no room for.
    assert dict(joined.dtypes)["id"] == ("bigint" if unmatched == "emit" else dict(left.dtypes)["id"])
    large = 7 if types == "long int" else 2**40
    streams.add(left=[Row(1, 0, 0), Row(2, 0, 90)], right=[Row(1, 0, 1), Row(large, 0, 2), Row(90, 0, 100)])
    with streams.test.query(joined) as query:
        query.run()
        alone = [(large, None, 2)] if unmatched == "emit" else []
        assert sorted(map(shown, query.rows()), key=repr) == sorted(
            [(1, 0, 1), (2, 90, None), *alone], key=repr
        )


@pytest.mark.contract
def test_names_that_both_sides_have(streams: Synced) -> None:
    assert streams.join().columns == ["id", "partition", "created", "partition_right", "created_right"]
    assert streams.join(suffix="_2").columns == ["id", "partition", "created", "partition_2", "created_2"]


@pytest.mark.slow
def test_a_watermark_after_it(streams: Synced) -> None:
    joined = streams.join().withWatermark("created", "10 seconds")
    counts = joined.groupBy(F.window("created", "10 seconds")).count().select("window.start", "count")
    streams.add(left=[Row(n, 0, n) for n in range(20)], right=[Row(0, 0, 0), Row(90, 0, 60)])
    with streams.test.query(counts) as query:
        query.run()
        streams.add(left=[Row(50, 0, 50)], right=[Row(91, 0, 90)])
        query.run()
        streams.add(left=[Row(51, 0, 70)], right=[Row(92, 0, 130)])
        query.run()
        windows = sorted((second(row["start"]), row["count"]) for row in query.rows())
        assert windows == [(0, 10), (10, 10), (50, 1)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_any_rows_against_plain_reckoning(streams: Synced, seed: int) -> None:
    """Rows of any partition and order, restarts in between: what comes out, batch by batch."""
    rng = random.Random(seed)
    model = Model(window=20, emit=True)
    query = streams.query(window="20 seconds", on_unmatched_right="emit")
    clock = 0
    try:
        for step in range(14):
            clock += rng.randrange(12)
            rows = {
                side: [
                    Row(rng.randrange(25), rng.randrange(3), max(0, clock - rng.randrange(15)))
                    for _ in range(rng.randrange(9))
                ]
                for side in ("left", "right")
            }
            if not rows["left"] and not rows["right"]:
                continue
            streams.add(**rows)
            expected = model.run(**rows)
            assert new(query) == sorted(expected.elements(), key=repr), step
            if rng.random() < 0.3:
                query.restart()
    finally:
        query.stop()


@pytest.mark.contract
def test_a_partition_that_stalls_ends_the_query(streams: Synced) -> None:
    streams.add(left=[Row(1, 0, 0)], right=[Row(90, 0, 1), Row(91, 1, 1)])
    with streams.query(on_stall="fail", stall_after="1 second") as query:
        query.run()
        with pytest.raises(StreamingQueryException) as caught:  # noqa: PT012
            for step in range(60):
                streams.add(right=[Row(100 + step, 0, 10 + step)])
                query.run()
        error = caught.value
        assert isinstance(error, tailrace.TailraceJoinError)
        assert "1" in str(error)


@pytest.mark.contract
def test_rows_from_the_future(streams: Synced) -> None:
    far = 10**9
    left = [Row(1, 0, 0), Row(2, 0, far)]
    right = [Row(1, 0, 1), Row(3, 1, far), Row(90, 0, 20), Row(91, 1, 2)]
    streams.add(left, right)
    options: dict[str, Any] = {"future_limit": "10000 days"}
    with streams.query("mark", on_future="mark", **options) as query:
        assert new(query) == [(2, far, None), (3, None, far)]
        assert all(row["_mark"] == "future" for row in query.rows())
        assert query.progress()["observedMetrics"]["tailrace.syncJoin"]["syncTime"] is not None
    with (
        streams.query("fail", on_future="fail", **options) as query,
        pytest.raises(StreamingQueryException) as caught,
    ):
        query.run()
    assert "TAILRACE_SYNC_FUTURE" in str(caught.value)


def test_a_partition_that_stalls_is_left_out(streams: Synced) -> None:
    streams.add(left=[Row(1, 0, 0)], right=[Row(90, 0, 1), Row(91, 1, 1)])
    with streams.query(on_stall="exclude", stall_after="1 second") as query:
        query.run()
        for step in range(60):
            streams.add(right=[Row(100 + step, 0, 10 + step)])
            query.run()
            if query.rows():
                break
        assert [shown(row) for row in query.rows()] == [(1, 0, None)]


def test_a_match_from_a_partition_that_nobody_knew_is_counted(streams: Synced) -> None:
    streams.add(left=[Row(1, 0, 0), Row(2, 0, 14)], right=[Row(90, 0, 20)])
    with streams.query() as query:
        assert new(query) == [(1, 0, None), (2, 14, None)]
        # The sync time is 15. Both would have joined; the first is before that time.
        streams.add(right=[Row(1, 1, 3), Row(2, 1, 17)])
        query.run()
        told = [p["observedMetrics"].get("tailrace.syncJoin") for p in query.progresses()]
        assert max(t["possiblyMissed"] for t in told if t) == 1
        late = next(t["late"] for t in told if t and t.get("late"))
        assert [(row["side"], row["partition"], row["rows"]) for row in late] == [("right", "1", 1)]


def test_a_right_row_without_key_or_time_never_comes_out(streams: Synced) -> None:
    right = [Row(None, 0, 1), Row(5, 0, None), Row(6, 0, 1), Row(90, 0, 100)]
    streams.add(left=[Row(7, 0, 100)], right=right)
    with streams.query(on_unmatched_right="emit") as query:
        assert new(query) == [(6, None, 1)]
        assert query.total("nullKeyRightRows") == 2
