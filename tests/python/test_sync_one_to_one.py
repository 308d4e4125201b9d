"""The synced join with `one_to_one`: a pair comes out when both rows are there, and neither is held."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from synced import Model, Row, Synced, new, shown

if TYPE_CHECKING:
    from tailrace.testing import StreamQuery, StreamTest


@pytest.fixture
def streams(stream_test: StreamTest) -> Synced:
    return Synced(stream_test)


def held(query: StreamQuery) -> tuple[int, int, int]:
    """Left rows, right rows, and all rows of the state, by the last progress."""
    progress = query.progresses()[-1]
    sides = progress["observedMetrics"]["tailrace.syncJoin"]
    return sides["bufferedLeft"], sides["bufferedRight"], progress["stateOperators"][0]["numRowsTotal"]


def test_a_pair_comes_out_with_its_second_row_and_the_state_falls_at_once(streams: Synced) -> None:
    left = [Row(1, 0, 0), Row(2, 0, 1), Row(3, 0, 2)]
    streams.add(left, right=[Row(1, 0, 1), Row(91, 1, 0), Row(4, 0, 8)])
    with streams.query(one_to_one=True) as query:
        # Partition 1 is at 0: without it, all would wait.
        assert new(query) == [(1, 0, 1)]
        assert held(query) == (2, 2, 4)
        streams.add(right=[Row(3, 0, 4)])
        assert new(query) == [(3, 2, 4)]
        assert held(query) == (1, 2, 3)
        streams.add(left=[Row(4, 0, 7)])
        assert new(query) == [(4, 7, 8)]
        assert held(query) == (1, 1, 2)
        # A left row without a right one waits for the sync time.
        streams.add(right=[Row(92, 0, 20), Row(93, 1, 7)])
        assert new(query) == [(2, 1, None)]
        assert query.total("matched") == 3
        assert query.total("unmatchedLeft") == 1


@pytest.mark.slow
def test_any_unique_ids_give_the_rows_that_they_give_without_it(streams: Synced) -> None:
    """Rows of any partition and order; restarts in between switch it on and off."""
    rng = random.Random(7)
    model = Model(window=20, emit=True)
    options = {"window": "20 seconds", "on_unmatched_right": "emit"}
    expected: Counter[tuple[Any, ...]] = Counter()
    found: Counter[tuple[Any, ...]] = Counter()
    waiting: list[tuple[int, str, Row]] = []
    early = 0
    for step in range(14):
        for number in range(step * 10, step * 10 + 10):
            at = 10 + step * 5 + rng.randrange(5)
            # At most four steps later than the other side, and a partition lags by as many.
            for side, second in (("left", at), ("right", at + rng.choice([-3, 0, 2, 4, 9]))):
                if rng.random() < 0.8:
                    waiting.append((step + rng.randrange(4), side, Row(number, rng.randrange(3), second)))
        rows = {
            side: [row for at, of, row in waiting if of == side and at == step] for side in ("left", "right")
        }
        streams.add(**rows)
        expected += model.run(**rows)
        with streams.query(**options, one_to_one=step % 5 != 3) as query:
            query.run()
            found += Counter(shown(row) for row in query.rows())
            early += sum((found - expected).values())
            assert not [row for row in found - expected if None in row], step
    end = {side: [Row(None, part, 10**4) for part in range(3)] for side in ("left", "right")}
    rest = {side: [row for at, of, row in waiting if of == side and at >= 14] for side in ("left", "right")}
    for rows in (rest, end):
        streams.add(**rows)
        expected += model.run(**rows)
        with streams.query(**options, one_to_one=True) as query:
            query.run()
            found += Counter(shown(row) for row in query.rows())
    assert early > 5
    assert found == expected


@pytest.mark.contract
def test_it_is_true_or_false(streams: Synced) -> None:
    with pytest.raises(TypeError, match="one_to_one"):
        streams.join(one_to_one="yes")
