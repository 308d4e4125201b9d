"""kill -9 at random moments of a join whose right side stalls, is excluded, and comes back."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import joins
import pytest
from killing import LOCAL, SEED, kill_count, run_to_the_end
from late_labels import output

from arrivals import arrive
from streams import Row, arrow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.campaign

_AFTER = 20
# Seconds of event time of a file, its rows, and their keys. A left row has a key and a time of its own.
_FILE, _ROWS, _KEYS = 20, 20, 12
_FIRST_STALLED, _BEHIND = 2, 6
# A start has to run nine micro-batches before the right side has stalled.
_FILES, _FILES_PER_KILL = 24, 10
_END = Row(10**6, 99, 10**5)


def _make(root: Path, files: int, rng: random.Random) -> tuple[list[Row], list[Row]]:
    lefts: list[Row] = []
    rights: list[Row] = []
    for number in range(files + 1):
        left, right = [_END], [_END]
        if number < files:
            begin, ids = number * _FILE, range(number * _ROWS, (number + 1) * _ROWS)
            places = rng.sample(range(_FILE * _KEYS), _ROWS)
            left = [
                Row(i, place % _KEYS, begin + place // _KEYS) for i, place in zip(ids, places, strict=True)
            ]
            right = [Row(10**5 + i, rng.randrange(_KEYS), begin + rng.randrange(_FILE)) for i in ids]
            lefts += left
            rights += right
        for side, rows in (("left", left), ("right", right)):
            (root / side).mkdir(exist_ok=True)
            arrive(joins.later(root) / side, number, arrow(rows))
    return lefts, rights


def test_what_comes_out_without_a_side_after_kills_equals_the_oracle(tmp_path: Path) -> None:
    kills = kill_count(1)
    rng = random.Random(SEED)
    files = _FILES + kills * _FILES_PER_KILL
    lefts, rights = _make(tmp_path, files, rng)
    joins.configure_stall(tmp_path, _FIRST_STALLED, files - _BEHIND)
    joins.configure(
        tmp_path,
        {},
        after=f"{_AFTER} seconds",
        release_every="batch",
        on_stall="exclude",
        stall_after="400 milliseconds",
        amend_for="1 day",
    )
    run_to_the_end(joins.WORKER, tmp_path, kills, rng, place=LOCAL)
    of_key: dict[int | None, list[Row]] = defaultdict(list)
    for row in rights:
        of_key[row.key].append(row)
    expected: dict[tuple[int | None, float], set[int]] = {
        (left.key, left.second): {r.id for r in of_key[left.key] if 0 <= r.second - left.second <= _AFTER}
        for left in lefts
    }
    first: dict[tuple[int | None, float], set[int]] = {}
    amended: dict[tuple[int | None, float], list[set[int]]] = defaultdict(list)
    excluded = 0
    for (number, key, second, labels, mark), count in output(tmp_path).items():
        place, found = (key, second), set(labels)
        assert count == 1, "each row comes out once"
        assert found <= expected[place]
        if mark == "amended":
            amended[place].append(found)
        else:
            assert number is not None
            assert place not in first, "each left row comes out once, and is amended then"
            assert mark in (None, "excluded")
            # Without a mark it has all that it will ever have.
            assert mark == "excluded" or found == expected[place]
            excluded += mark == "excluded"
            first[place] = found
    assert first.keys() == expected.keys()
    for place, whole in expected.items():
        # Each has more labels than the one before.
        versions = [first[place], *sorted(amended[place], key=len)]
        assert all(before < now for before, now in pairwise(versions))
        assert versions[-1] == whole
    # Some had the right side before it stalled, and when it was back.
    assert len(expected) // 4 < excluded < len(expected)
