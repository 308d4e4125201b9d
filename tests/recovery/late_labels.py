"""Streams with late labels for campaigns of kills, and the micro-batches that a query has made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from arrivals import arrive
from streams import NOON, Row, arrow

if TYPE_CHECKING:
    import random

NONE = float("-inf")


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
        all_slices.append([Row(10**6, 99, slices * 20 + 1000)])
        (root / side).mkdir()
        for i, rows in enumerate(all_slices):
            arrive(root / side, i, arrow(rows))
    return written


class Batch(NamedTuple):
    """A micro-batch, as Spark's logs have it: a kill may change which files it reads, and so what is late."""

    watermark: float
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
        micros = metadata["batchWatermarkMs"] * 1000
        began = NOON.timestamp()
        found.append(Batch(micros / 1e6 - began if micros else NONE, now))
    return found
