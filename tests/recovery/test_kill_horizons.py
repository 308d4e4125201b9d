"""kill -9 at random moments of a join with horizons and late labels."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end

from arrivals import arrive
from streams import NOON, Row, arrow

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("horizons_worker.py")
_SLICES_PER_KILL = 4
_BEFORE = 5
_HORIZONS = {"10 seconds": 10, "30 seconds": 30, "1 minute": 60}
_AFTER = _HORIZONS["1 minute"]
_NONE = float("-inf")


class _Label(NamedTuple):
    row: Row
    behind: float
    """The watermark that it was behind when it came."""


class Version(NamedTuple):
    """What a left row comes out with at a horizon."""

    labels: tuple[int, ...]
    changed: bool | None
    final: bool


def _slice(i: int, number: int, rng: random.Random) -> tuple[list[Row], list[Row]]:
    """Left rows are up to 9 seconds late, and on time; one label in three is up to 80 seconds late."""

    def row(number: int, late: int) -> Row:
        return Row(number, rng.randrange(12), i * 20 + rng.randrange(20) - rng.randrange(late))

    lefts = [row(number + n, 10) for n in range(60)]
    return lefts, [row(number + 60 + n, 80 if n % 3 == 0 else 10) for n in range(60)]


def _version(left: Row, horizon: int, labels: list[_Label]) -> tuple[int, ...]:
    last = left.second + horizon
    found = [
        label.row
        for label in labels
        if label.row.key == left.key
        and left.second - _BEFORE <= label.row.second <= last
        and label.behind < last
    ]
    return tuple(sorted(row.id for row in found))


def _make(root: Path, slices: int, rng: random.Random) -> dict[str, list[list[Row]]]:
    """Writes the streams in slices, a file each; returns them by side."""
    written: dict[str, list[list[Row]]] = {"left": [], "right": []}
    for i in range(slices):
        for side, rows in zip(written, _slice(i, i * 120, rng), strict=True):
            written[side].append(rows)
    for side, all_slices in written.items():
        all_slices.append([Row(10**6, 99, slices * 20 + 1000)])
        (root / side).mkdir()
        for i, rows in enumerate(all_slices):
            arrive(root / side, i, arrow(rows))
    return written


class _Batch(NamedTuple):
    """A micro-batch, as Spark's logs have it: a kill may change which files it reads, and so what is late."""

    watermark: float
    files: dict[str, list[int]]


def _batches(root: Path) -> list[_Batch]:
    checkpoint = root / "checkpoint"
    # Of each source, the number of the file of each offset of its own log.
    of_offset: dict[str, dict[int, list[int]]] = {"left": {}, "right": {}}
    for source in ("0", "1"):
        for log in (checkpoint / "sources" / source).glob("[0-9]*"):
            for entry in map(json.loads, log.read_text().splitlines()[1:]):
                path = Path(entry["path"])
                files = of_offset[path.parent.name].setdefault(entry["batchId"], [])
                if int(path.stem) not in files:
                    files.append(int(path.stem))
    found = []
    read = {"left": -1, "right": -1}
    for log in sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
        metadata, *offsets = map(json.loads, log.read_text().splitlines()[1:])
        now: dict[str, list[int]] = {}
        for side, offset in zip(("left", "right"), offsets, strict=True):
            last = -1 if offset == "-" else offset["logOffset"]
            now[side] = [n for k in range(read[side] + 1, last + 1) for n in of_offset[side][k]]
            read[side] = last
        micros = metadata["batchWatermarkMs"] * 1000
        began = NOON.timestamp()
        found.append(_Batch(micros / 1e6 - began if micros else _NONE, now))
    return found


def _expected(
    written: dict[str, list[list[Row]]], batches: list[_Batch]
) -> tuple[dict[tuple[int, str], Version], int]:
    """The versions of all rows that leave, and how many late labels were taken."""
    expected: dict[tuple[int, str], Version] = {}
    waiting: list[tuple[Row, int]] = []
    labels: list[_Label] = []
    taken = 0
    late = _NONE
    names = list(_HORIZONS)
    for batch in batches:
        lefts, rights = (
            [r for n in batch.files[side] for r in written[side][n]] for side in ("left", "right")
        )
        assert all(row.second > late for row in lefts)
        waiting += [(row, 0) for row in lefts]
        for row in rights:
            is_late = row.second <= late
            if not is_late or row.second + _BEFORE > late - _AFTER:
                taken += is_late
                labels.append(_Label(row, late if is_late else _NONE))
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
    written = _make(tmp_path, kills * _SLICES_PER_KILL, rng)
    run_to_the_end(_WORKER, tmp_path, kills, rng, place=LOCAL)
    expected, taken = _expected(written, _batches(tmp_path))
    assert taken > 0
    assert any(version.changed for version in expected.values())
    got = _output(tmp_path)
    assert len(got) == len({key for key, _ in got}), "a version came out twice"
    assert dict(got) == expected
