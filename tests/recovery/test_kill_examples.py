"""kill -9 of a query of training examples; then the output is the oracle's, row for row.

`TAILRACE_KILLS` sets the number of kills, one by default.
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end

from arrivals import arrive, held
from oracles import WHOLE, AsOfOracle, Event, Impression, LabelOracle
from streams import Row, arrow

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("examples_worker.py")
_SLICES_PER_KILL = 4
_SIDES = ("left", "click", "order", "profile")
_KEYS = 20
_CLICK = LabelOracle("click", ("user",), before=0, after=15, match="first")
_BUY = LabelOracle("buy", ("user",), before=0, after=30, weights=lambda ago: [Fraction(1)] * len(ago))


class _Example(NamedTuple):
    clicks: list[int]
    buys: list[tuple[int, int]]
    profile: int | None


def _make(root: Path, slices: int, rng: random.Random) -> dict[str, list[Row]]:
    """Writes the streams in slices, in arrival order; returns their rows, without those of the last slice."""
    written: dict[str, list[Row]] = {side: [] for side in _SIDES}
    number = 0
    for side in _SIDES:
        taken: set[tuple[int, int]] = set()
        for i in range(slices):
            rows = []
            for _ in range(60):
                number += 1
                # At most 9 seconds late, with a delay of 10.
                row = Row(number, rng.randrange(_KEYS), i * 20 + rng.randrange(20) - rng.randrange(10))
                # Equal times would come in an order of their content.
                if (row.key, row.second) not in taken:
                    taken.add((row.key or 0, row.second))
                    rows.append(row)
            written[side] += rows
            arrive(root / side, i, arrow(rows))
        arrive(held(root) / side, slices, arrow([Row(10**6, 99, slices * 20 + 1000)]))
    return written


def _until_the_end(written: dict[str, list[Row]]) -> list[list[Row]]:
    """Impressions and profiles, with the row that the watermark passes them by."""
    return [[*written[side], Row(10**6, 99, 10**6)] for side in ("left", "profile")]


def _expected(written: dict[str, list[Row]]) -> dict[int, _Example]:
    lefts = [Impression(r.id, r.key, None, r.second) for r in written["left"]]
    clicks, orders = (
        {
            key: [Event(r.id, r.key, None, r.second) for r in written[side] if r.key == key]
            for key in range(_KEYS)
        }
        for side in ("click", "order")
    )
    profile_of = dict(AsOfOracle(delay=5, max_age=60, watermark_delay=10).step(*_until_the_end(written)))
    expected = {}
    for left in lefts:
        user = left.user or 0
        of_user = [other for other in lefts if other.user == user]
        expected[left.id] = _Example(
            [event for event, _ in _CLICK.group(left, of_user, clicks[user])[0]],
            _BUY.group(left, of_user, orders[user])[0],
            profile_of[left.id],
        )
    return expected


def campaign(root: Path, kills: int, place: Place) -> None:
    rng = random.Random(SEED)
    expected = _expected(_make(root, kills * _SLICES_PER_KILL, rng))
    assert (
        min(sum(bool(value) for value in column) for column in zip(*expected.values(), strict=True)) > kills
    )
    assert any(share < WHOLE for example in expected.values() for _, share in example.buys)
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    columns = ["l_id", "click", "buy", "profile"]
    tables = [pq.read_table(path, columns=columns) for path in committed_files(root)]
    got = [
        (
            row["l_id"],
            _Example(
                [click["c_id"] for click in row["click"]],
                [(buy["o_id"], int(buy["credit"] * WHOLE)) for buy in row["buy"]],
                row["profile"] and row["profile"]["p_id"],
            ),
        )
        for row in pa.concat_tables(tables).to_pylist()
    ]
    assert len(got) == len({left for left, _ in got}), "an example came out twice"
    assert dict(got) == expected


def test_output_after_kills_equals_the_oracle(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(1), LOCAL)
