"""The definition of the join, line by line."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from streams import Row, Streams, groups, join, next_rows, pairs, second

if TYPE_CHECKING:
    from tailrace.testing import StreamTest

# Far enough ahead to close every window of these tests; of a key that matches nothing.
END = Row(900, 9, 1000)


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    return Streams(stream_test)


# The worked table of the seed: A at 3, a at 4, B at 5, b at 6, A again at 7, one key.
ARRIVALS = [
    ("left", Row(1, 1, 3, "A")),
    ("right", Row(11, 1, 4, "a")),
    ("left", Row(2, 1, 5, "B")),
    ("right", Row(12, 1, 6, "b")),
    ("left", Row(3, 1, 7, "A")),
]


@pytest.mark.contract
def test_worked_table_inner_pairs_come_out_at_the_arrival_that_completes_them(streams: Streams) -> None:
    arrivals = []
    with streams.query(streams.join(how="inner", before="30 seconds")) as query:
        for side, row in ARRIVALS:
            streams.add(**{side: [row]})
            arrivals.append(sorted((r["l_note"], r["r_note"]) for r in next_rows(query)))
    assert arrivals == [[], [("A", "a")], [("B", "a")], [("A", "b"), ("B", "b")], [("A", "a"), ("A", "b")]]


@pytest.mark.contract
def test_worked_table_left_groups_come_out_once_at_window_expiry(streams: Streams) -> None:
    with streams.query(streams.join(before="30 seconds")) as query:
        for side, row in ARRIVALS:
            streams.add(**{side: [row]})
            query.run()
            assert query.rows() == []
        streams.add([END], [END])
        query.run()
        rows = sorted(query.rows(), key=lambda r: r["l_id"])
    assert [(r["l_note"], [m["r_note"] for m in r["labels"]]) for r in rows] == [
        ("A", ["a", "b"]),
        ("B", ["a", "b"]),
        ("A", ["a", "b"]),
    ]
    assert list(rows[0]["labels"][0]) == ["r_id", "r_ts", "r_note"]
    assert [second(r["l_ts"]) for r in rows] == [3, 5, 7]


def test_a_left_row_comes_out_when_the_watermark_reaches_its_end_and_not_before(streams: Streams) -> None:
    with streams.query(streams.join()) as query:
        streams.add([Row(1, 1, 100)], [Row(11, 1, 100)])
        assert groups(next_rows(query)) == []
        # Watermark 129: one second before 100 + 30.
        streams.add([Row(2, 2, 139)], [Row(12, 1, 139)])
        assert groups(next_rows(query)) == []
        # 130: it comes out in the batch after, which has no data.
        streams.add([Row(3, 2, 140)], [Row(13, 2, 140)])
        assert groups(next_rows(query)) == [(1, [11])]
        assert query.progress()["numInputRows"] == 0


def test_both_ends_of_the_window_are_included(streams: Streams) -> None:
    left = [Row(1, 1, 100)]
    right = [Row(i, 1, t) for i, t in enumerate([94, 95, 100, 130, 131], start=11)]
    with streams.query(streams.join(before="5 seconds")) as query:
        streams.add(left, right)
        streams.add([END], [END])
        query.run()
        assert groups(query.rows()) == [(1, [12, 13, 14])]


def test_windows_of_zero_width_match_equal_times(streams: Streams) -> None:
    with streams.query(streams.join(after="0 seconds")) as query:
        streams.add([Row(1, 1, 100)], [Row(11, 1, 99), Row(12, 1, 100), Row(13, 1, 101)])
        streams.add([END], [END])
        query.run()
        assert groups(query.rows()) == [(1, [12])]


def test_null_keys_never_match(streams: Streams) -> None:
    with streams.query(streams.join()) as query:
        streams.add([Row(1, None, 100), Row(2, 1, 100)], [Row(11, None, 101), Row(12, 1, 101)])
        streams.add([END], [END])
        query.run()
        assert groups(query.rows()) == [(1, []), (2, [12])]
        assert query.total("nullKeyRightRows") == 1


def test_equal_rows_are_kept_apart(streams: Streams) -> None:
    twice = [Row(1, 1, 100, "same"), Row(1, 1, 100, "same")]
    with streams.query(streams.join()) as query:
        streams.add(twice, [Row(11, 1, 100, "same"), Row(11, 1, 100, "same")])
        streams.add([END], [END])
        query.run()
        assert groups(query.rows()) == [(1, [11, 11]), (1, [11, 11])]


@pytest.mark.parametrize(
    ("match", "expected"), [("all", [11, 12, 13, 14]), ("first", [11]), ("last", [14]), ("nearest", [12])]
)
def test_each_match_policy_chooses_its_rows(streams: Streams, match: str, expected: list[int]) -> None:
    right = [Row(14, 1, 120), Row(12, 1, 98), Row(11, 1, 92), Row(13, 1, 105)]
    with streams.query(streams.join(before="20 seconds", match=match)) as query:
        streams.add([Row(1, 1, 100)], right)
        streams.add([END], [END])
        query.run()
        assert groups(query.rows()) == [(1, expected)]


@pytest.mark.contract
def test_max_matches_keeps_the_first_matches_and_sets_the_flag(streams: Streams) -> None:
    with streams.query(streams.join(max_matches=2)) as query:
        streams.add(
            [Row(1, 1, 100), Row(2, 2, 100)],
            [Row(13, 1, 103), Row(11, 1, 101), Row(12, 1, 102), Row(21, 2, 101), Row(22, 2, 102)],
        )
        streams.add([END], [END])
        query.run()
        rows = query.rows()
    assert groups(rows) == [(1, [11, 12]), (2, [21, 22])]
    assert {r["l_id"]: r["labels_truncated"] for r in rows} == {1: True, 2: False}


def test_late_rows_are_counted_per_side(streams: Streams) -> None:
    with streams.query(streams.join()) as query:
        streams.add([Row(1, 1, 100)], [Row(11, 1, 100)])
        query.run()
        # Watermark 90: the windows of left rows up to 60 have closed. No other one matches rows up to there.
        streams.add([Row(2, 1, 60), Row(3, 1, 91)], [Row(12, 1, 59), Row(13, 1, 60), Row(14, 1, 91)])
        query.run()
        assert (query.total("lateLeftRows"), query.total("lateRightRows")) == (1, 2)
        assert query.total("lateRightRowsAccepted") == 0
        assert query.total("numRowsDroppedByWatermark") == 3
        streams.add([END], [END])
        query.run()
        assert groups(query.rows()) == [(1, [11]), (3, [14, 11])]


def test_late_rows_come_out_marked_when_asked_for(streams: Streams) -> None:
    with streams.query(streams.join(on_late="mark")) as query:
        streams.add([Row(1, 1, 100, "on time")], [Row(11, 1, 100)])
        query.run()
        streams.add([Row(2, 1, 60, "late")], [Row(12, 1, 60)])
        query.run()
        late = {r["l_id"]: r for r in query.rows() if r["_mark"]}
        assert {r["_mark"] for r in late.values()} == {"late_left", "late_right"}
        assert (late[2]["l_note"], late[2]["labels"]) == ("late", [])
        assert [late[None][c] for c in ("key", "l_ts", "l_note")] == [1, None, None]
        assert [(m["r_id"], second(m["r_ts"])) for m in late[None]["labels"]] == [(12, 60)]
        streams.add([END], [END])
        query.run()
        assert groups(r for r in query.rows() if r["_mark"] is None) == [(1, [11])]


def test_late_pairs_have_nulls_on_the_other_side(streams: Streams) -> None:
    with streams.query(streams.join(how="inner", on_late="mark")) as query:
        streams.add([Row(1, 1, 100)], [Row(11, 1, 100)])
        query.run()
        streams.add([Row(2, 1, 80)], [Row(12, 1, 60)])
        query.run()
        rows = [(r["l_id"], r["key"], r["r_id"], r["_mark"]) for r in query.rows()]
    assert sorted(rows, key=str) == sorted(
        [(1, 1, 11, None), (2, 1, None, "late_left"), (None, 1, 12, "late_right")], key=str
    )


@pytest.mark.contract
def test_a_late_label_is_matched_while_its_left_row_waits(streams: Streams) -> None:
    kept, dropped = (
        streams.query(streams.join(**o), n)
        for n, o in {"kept": {}, "dropped": {"late_labels": False}}.items()
    )
    with kept, dropped:
        for left, right in [
            ([Row(1, 1, 61), Row(2, 1, 100)], [Row(11, 1, 100)]),
            ([], [Row(12, 1, 61), Row(13, 1, 60)]),
            ([END], [END]),
        ]:
            streams.add(left, right)
            kept.run()
            dropped.run()
        assert groups(kept.rows()) == [(1, [12]), (2, [11])]
        assert (kept.total("lateRightRowsAccepted"), kept.total("lateRightRows")) == (1, 1)
        assert groups(dropped.rows()) == [(1, []), (2, [11])]
        assert (dropped.total("lateRightRowsAccepted"), dropped.total("lateRightRows")) == (0, 2)


@pytest.mark.contract
def test_a_late_left_row_is_joined_while_its_window_is_open(streams: Streams) -> None:
    kept, dropped = (
        streams.query(streams.join(**o), n)
        for n, o in {"kept": {}, "dropped": {"late_impressions": False}}.items()
    )
    with kept, dropped:
        # The watermark is 90 behind the first rows: windows of left rows up to 60 have closed.
        for left, right in [
            ([Row(1, 1, 100)], [Row(11, 1, 70), Row(12, 1, 100), Row(13, 1, 60)]),
            ([Row(2, 1, 61), Row(3, 1, 60), Row(4, None, 61)], [Row(14, 1, 91)]),
            ([END], [END]),
        ]:
            streams.add(left, right)
            kept.run()
            dropped.run()
        assert groups(kept.rows()) == [(1, [12]), (2, [11, 14]), (4, [])]
        assert (kept.total("lateLeftRowsAccepted"), kept.total("lateLeftRows")) == (2, 1)
        assert groups(dropped.rows()) == [(1, [12])]
        assert (dropped.total("lateLeftRowsAccepted"), dropped.total("lateLeftRows")) == (0, 3)


@pytest.mark.contract
def test_versions_come_out_at_their_horizons(streams: Streams) -> None:
    result = streams.join(
        horizons=["10 seconds", dt.timedelta(seconds=20)], emit="changes", release_every="batch"
    )
    with streams.query(result) as query:
        for left, right in [
            ([Row(1, 1, 100), Row(2, 2, 100)], [Row(11, 1, 105), Row(21, 2, 115)]),
            ([Row(0, 9, 120)], [Row(0, 9, 120)]),  # the watermark is 110
            ([Row(0, 9, 131)], [Row(0, 9, 131), Row(12, 1, 104)]),  # a label behind the watermark
            ([END], [END]),
        ]:
            streams.add(left, right)
            query.run()
        rows = [(r, [m["r_id"] for m in r["labels"]]) for r in query.rows() if r["l_id"] in {1, 2}]
    assert sorted((r["l_id"], r["final"], r["horizon"], r["changed"], labels) for r, labels in rows) == [
        (1, False, "10 seconds", None, [11]),
        (1, False, "20 seconds", True, [12, 11]),
        (1, True, "30 seconds", False, [12, 11]),
        (2, False, "10 seconds", None, []),
        (2, False, "20 seconds", True, [21]),
        (2, True, "30 seconds", False, [21]),
    ]


@pytest.mark.contract
@pytest.mark.parametrize("how", ["left", "inner"])
def test_the_state_is_empty_when_the_watermark_has_passed_all(streams: Streams, how: str) -> None:
    with streams.query(streams.join(how=how, before="5 seconds")) as query:
        streams.add([Row(i, i % 3, 100 + i) for i in range(20)], [Row(i, i % 3, 100 + i) for i in range(20)])
        query.run()
        # Pairs need no right row that is more than `before` behind the watermark, 109.
        assert len(query.state()) == {"left": 40, "inner": 36}[how]
        # Rows of no use to anybody carry the watermark on: they have no key.
        streams.add([Row(99, None, 5000)], [Row(99, None, 5000)])
        query.run()
        streams.add([Row(98, None, 5001)], [Row(98, None, 5001)])
        query.run()
        assert [time for (time,) in query.state("time") if second(time) < 5000] == []


def test_a_stream_joined_with_itself_matches_its_own_rows(streams: Streams) -> None:
    frame = streams.frame("left")
    again = frame.withColumnRenamed("l_id", "r_id").withColumnRenamed("l_ts", "r_ts").drop("l_note")
    with streams.query(join(frame, again, how="inner")) as query:
        streams.add([Row(1, 1, 100), Row(2, 1, 110)])
        query.run()
        assert pairs(query.rows()) == [(1, 1), (1, 2), (2, 2)]


def test_a_left_row_without_a_time_comes_out_at_once_and_alone(streams: Streams) -> None:
    with streams.query(streams.join()) as query:
        streams.sources["left"].add((1, 1, None, ""))
        streams.add([Row(2, 1, 100)], [Row(11, 1, 101)])
        query.run()
        assert groups(query.rows()) == [(1, [])]
