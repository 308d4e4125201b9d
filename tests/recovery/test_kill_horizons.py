"""kill -9 at random moments of a join with horizons and late labels."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import joins
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end
from late_labels import NONE, Batch, Label, batches, make

if TYPE_CHECKING:
    from pathlib import Path

    from streams import Row

pytestmark = pytest.mark.campaign

_SLICES_PER_KILL = 4
_BEFORE = 5
_HORIZONS = {"10 seconds": 10, "30 seconds": 30, "1 minute": 60}
_AFTER = _HORIZONS["1 minute"]


class Version(NamedTuple):
    """What a left row comes out with at a horizon."""

    labels: tuple[int, ...]
    changed: bool | None
    final: bool


def _version(left: Row, horizon: int, labels: list[Label]) -> tuple[int, ...]:
    last = left.second + horizon
    found = [
        label.row
        for label in labels
        if label.row.key == left.key
        and left.second - _BEFORE <= label.row.second <= last
        and label.behind < last
    ]
    return tuple(sorted(row.id for row in found))


def _expected(
    written: dict[str, list[list[Row]]], ran: list[Batch]
) -> tuple[dict[tuple[int, str], Version], int]:
    """The versions of all rows that leave, and how many late labels were taken."""
    expected: dict[tuple[int, str], Version] = {}
    waiting: list[tuple[Row, int]] = []
    labels: list[Label] = []
    taken = 0
    late = NONE
    names = list(_HORIZONS)
    for batch in ran:
        lefts, rights = (
            [r for n in batch.files[side] for r in written[side][n]] for side in ("left", "right")
        )
        assert all(row.second > late for row in lefts)
        waiting += [(row, 0) for row in lefts]
        for row in rights:
            is_late = row.second <= late
            if not is_late or row.second + _BEFORE > late - _AFTER:
                taken += is_late
                labels.append(Label(row, late if is_late else NONE))
        still = []
        for left, had in waiting:
            done = had
            while done < len(names) and left.second + _HORIZONS[names[done]] <= batch.watermark:
                found = _version(left, _HORIZONS[names[done]], labels)
                before = expected[left.id, names[done - 1]].labels if done else None
                changed = None if before is None else before != found
                expected[left.id, names[done]] = Version(found, changed, done == len(names) - 1)
                done += 1
            if done < len(names):
                still.append((left, done))
        waiting = still
        late = batch.watermark
    assert {left.id for left, _ in waiting} == {10**6}
    return expected, taken


def _output(root: Path) -> list[tuple[tuple[int, str], Version]]:
    columns = ["l_id", "labels", "horizon", "final", "changed"]
    rows = pa.concat_tables([pq.read_table(path, columns=columns) for path in committed_files(root)])
    return [
        (
            (r["l_id"], r["horizon"]),
            Version(tuple(sorted(m["r_id"] for m in r["labels"])), r["changed"], r["final"]),
        )
        for r in rows.to_pylist()
    ]


def test_versions_after_kills_equal_the_oracle(tmp_path: Path) -> None:
    kills = kill_count(1)
    rng = random.Random(SEED)
    written = make(tmp_path, kills * _SLICES_PER_KILL, rng)
    joins.configure(
        tmp_path,
        joins.KEEPS_LOGS,
        before="5 seconds",
        after="60 seconds",
        horizons=["10 seconds", "30 seconds"],
    )
    run_to_the_end(joins.WORKER, tmp_path, kills, rng, place=LOCAL)
    expected, taken = _expected(written, batches(tmp_path))
    assert taken > 0
    assert any(version.changed for version in expected.values())
    got = _output(tmp_path)
    assert len(got) == len({key for key, _ in got}), "a version came out twice"
    assert dict(got) == expected
