"""Streams with late labels for campaigns of kills, the micro-batches of a query, and what comes out."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import joins
import pyarrow as pa
import pyarrow.parquet as pq
from killing import committed_files

from arrivals import arrive, held, let_in
from streams import NOON, Row, arrow

if TYPE_CHECKING:
    import random

NONE = float("-inf")


BEFORE = 5
AFTER = 20

Out: TypeAlias = tuple[int | None, int | None, float, tuple[int, ...], str | None]
"""The left row's id, key and second, the ids of its labels, and the mark."""


class Label(NamedTuple):
    row: Row
    behind: float
    """The watermark that it was behind when it came."""


def _slice(i: int, number: int, rng: random.Random) -> tuple[list[Row], list[Row]]:
    """Left rows are up to 9 seconds late, and on time; one label in three is up to 80 seconds late."""

    def row(number: int, late: int) -> Row:
        return Row(number, rng.randrange(12), i * 20 + rng.randrange(20) - rng.randrange(late))

    lefts = [row(number + n, 10) for n in range(60)]
    return lefts, [row(number + 60 + n, 80 if n % 3 == 0 else 10) for n in range(60)]


def make(root: Path, slices: int, rng: random.Random) -> dict[str, list[list[Row]]]:
    """Writes the streams in slices, a file each; returns them by side."""
    written: dict[str, list[list[Row]]] = {"left": [], "right": []}
    for i in range(slices):
        for side, rows in zip(written, _slice(i, i * 120, rng), strict=True):
            written[side].append(rows)
    for side, all_slices in written.items():
        for i, rows in enumerate(all_slices):
            arrive(root / side, i, arrow(rows))
        all_slices.append([Row(10**6, 99, slices * 20 + 1000)])
        arrive(held(root) / side, slices, arrow(all_slices[-1]))
    return written


def arrive_later(root: Path, slices: int, rng: random.Random, *, starts: int) -> dict[str, list[list[Row]]]:
    """The same, for a worker that lets the files in itself: see `joins.feed`.

    There is a file of labels more for each start: a query that has had no input yet isn't silent.
    """
    later = joins.later(root)
    for side in ("left", "right"):
        (root / side).mkdir()
    written = make(later, slices, rng)
    let_in(later)
    for n in range(starts):
        rows = [Row(2 * 10**6 + n, 99, slices * 20 + 1000 + n)]
        arrive(later / "right", len(written["right"]), arrow(rows))
        written["right"].append(rows)
    return written


class Batch(NamedTuple):
    """A micro-batch, as Spark's logs have it: a kill may change which files it reads, and so what is late."""

    watermark: float
    closed: float
    """Left rows up to there come out in it, though the watermark may be behind them: `idle_timeout`."""
    files: dict[str, list[int]]


def batches(root: Path) -> list[Batch]:
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
        notes = [v.split() for k, v in metadata["conf"].items() if k.startswith("tailrace.closed.")]
        # Spark has the notes of a batch in the entries of the next ones, too.
        closed = [int(time) for batch, time in notes if batch == log.name]
        watermark = metadata["batchWatermarkMs"] * 1000
        found.append(
            Batch(_second(watermark) if watermark else NONE, max(map(_second, closed), default=NONE), now)
        )
    return found


def _second(micros: int) -> float:
    return micros / 1e6 - NOON.timestamp()


def _fits(label: Row, left: Row) -> bool:
    return label.key == left.key and left.second - BEFORE <= label.second <= left.second + AFTER


def _labels(left: Row, labels: list[Label], amend_for: int) -> tuple[int, ...]:
    found = [
        label.row
        for label in labels
        if _fits(label.row, left) and label.behind < left.second + AFTER + amend_for
    ]
    return tuple(sorted(row.id for row in found))


def expected(
    written: dict[str, list[list[Row]]], ran: list[Batch], amend_for: int
) -> tuple[Counter[Out], list[Row]]:
    """What comes out of a join from BEFORE to AFTER, by brute force, and the left rows that wait.

    Late left rows don't come out. Rows are kept by key: fifty kills have so many that all of them with all
    labels in each batch would take half an hour.
    """
    out: Counter[Out] = Counter()
    waiting: list[Row] = []
    left_out: dict[int | None, dict[Row, tuple[int, ...]]] = defaultdict(dict)
    labels: dict[int | None, list[Label]] = defaultdict(list)
    late = through = NONE
    for batch in ran:
        lefts, rights = (
            [r for n in batch.files[side] for r in written[side][n]] for side in ("left", "right")
        )
        for row in rights:
            is_late = row.second <= late
            if not is_late or row.second + BEFORE > late - AFTER - amend_for:
                labels[row.key].append(Label(row, late if is_late else NONE))
        reached = {left for row in rights for left in left_out[row.key] if amend_for and _fits(row, left)}
        for left in reached:
            now = _labels(left, labels[left.key], amend_for)
            if now != left_out[left.key][left]:
                out[None, left.key, left.second, now, "amended"] += 1
                left_out[left.key][left] = now
        waiting += [row for row in lefts if row.second > max(late, through)]
        through = max(through, batch.watermark - AFTER, batch.closed)
        for left in [row for row in waiting if row.second <= through]:
            waiting.remove(left)
            found = left_out[left.key][left] = _labels(left, labels[left.key], amend_for)
            out[left.id, left.key, left.second, found, None] += 1
        late = batch.watermark
    return out, waiting


def output(root: Path) -> Counter[Out]:
    """What the join's sink has."""
    rows = pa.concat_tables([pq.read_table(path) for path in committed_files(root)])
    return Counter(
        (
            r["l_id"],
            r["key"],
            (r["l_ts"].replace(tzinfo=dt.UTC) - NOON).total_seconds(),
            tuple(sorted(m["r_id"] for m in r["labels"])),
            r.get("_mark"),
        )
        for r in rows.to_pylist()
    )
