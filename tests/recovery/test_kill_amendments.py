"""kill -9 at random moments of a join whose rows late labels amend: each amendment comes out once."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import TYPE_CHECKING

import joins
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end
from late_labels import NONE, Batch, Label, batches, make

from streams import NOON, Row

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.campaign

_SLICES_PER_KILL = 4
_BEFORE = 5
_AFTER = 20
_AMEND_FOR = 40

Out = tuple[int | None, int | None, float, tuple[int, ...], str | None]
"""The left row's id, key and second, the ids of its labels, and the mark."""


def _labels(left: Row, labels: list[Label]) -> tuple[int, ...]:
    found = [
        label.row
        for label in labels
        if label.row.key == left.key
        and left.second - _BEFORE <= label.row.second <= left.second + _AFTER
        and label.behind < left.second + _AFTER + _AMEND_FOR
    ]
    return tuple(sorted(row.id for row in found))


def _expected(written: dict[str, list[list[Row]]], ran: list[Batch]) -> Counter[Out]:
    """What comes out of all left rows but the last one."""
    out: Counter[Out] = Counter()
    waiting: list[Row] = []
    left_out: dict[Row, tuple[int, ...]] = {}
    labels: list[Label] = []
    late = NONE
    for batch in ran:
        lefts, rights = (
            [r for n in batch.files[side] for r in written[side][n]] for side in ("left", "right")
        )
        assert all(row.second > late for row in lefts)
        for row in rights:
            is_late = row.second <= late
            if not is_late or row.second + _BEFORE > late - _AFTER - _AMEND_FOR:
                labels.append(Label(row, late if is_late else NONE))
        for left, had in left_out.items():
            now = _labels(left, labels)
            if now != had:
                out[None, left.key, left.second, now, "amended"] += 1
                left_out[left] = now
        waiting += lefts
        for left in [row for row in waiting if row.second + _AFTER <= batch.watermark]:
            waiting.remove(left)
            left_out[left] = _labels(left, labels)
            out[left.id, left.key, left.second, left_out[left], None] += 1
        late = batch.watermark
    assert {left.id for left in waiting} == {10**6}
    return out


def _output(root: Path) -> Counter[Out]:
    columns = ["l_id", "key", "l_ts", "labels", "_mark"]
    rows = pa.concat_tables([pq.read_table(path, columns=columns) for path in committed_files(root)])
    return Counter(
        (
            r["l_id"],
            r["key"],
            (r["l_ts"].replace(tzinfo=dt.UTC) - NOON).total_seconds(),
            tuple(sorted(m["r_id"] for m in r["labels"])),
            r["_mark"],
        )
        for r in rows.to_pylist()
    )


def test_amendments_after_kills_equal_the_oracle(tmp_path: Path) -> None:
    kills = kill_count(1)
    rng = random.Random(SEED)
    written = make(tmp_path, kills * _SLICES_PER_KILL, rng)
    joins.configure(
        tmp_path,
        joins.KEEPS_LOGS,
        before="5 seconds",
        after="20 seconds",
        amend_for="40 seconds",
        release_every="batch",
    )
    run_to_the_end(joins.WORKER, tmp_path, kills, rng, place=LOCAL)
    expected = _expected(written, batches(tmp_path))
    assert sum(n for out, n in expected.items() if out[-1] == "amended") > 0
    assert _output(tmp_path) == expected
