"""The right answer of the feature-label join, by brute force over arrays; an output compared with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from workload import Longs


@dataclass(frozen=True)
class Side:
    """The columns of one stream that decide what matches: id, key, and time in ms since the epoch."""

    ids: Longs
    keys: Longs
    times: Longs


@dataclass(frozen=True)
class Groups:
    """Groups of ids, laid end to end: group i is `labels[offsets[i]:offsets[i + 1]]`, of the row `ids[i]`."""

    ids: Longs
    offsets: Longs
    labels: Longs

    def sorted_within(self) -> Groups:
        """The same groups, each in the order of its ids."""
        group = np.repeat(np.arange(len(self.ids)), np.diff(self.offsets))
        return Groups(self.ids, self.offsets, self.labels[np.lexsort((self.labels, group))])

    def take(self, rows: Longs) -> Groups:
        """The groups with these numbers, in this order."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(self.offsets[:-1][rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        return Groups(self.ids[rows], offsets, self.labels[at])


@dataclass(frozen=True)
class Verdict:
    """What a comparison found; `right` only if every group that had to come out did, once, as it should."""

    expected: int
    got: int
    labels: int
    missing: int
    duplicated: int
    premature: int
    wrong: int
    disordered: int

    @property
    def right(self) -> bool:
        """Whether the output is the right one, and there was something to compare."""
        faults = self.missing + self.duplicated + self.premature + self.wrong + self.disordered
        return faults == 0 and self.expected > 0 and self.labels > 0

    def __str__(self) -> str:
        return (
            f"{self.expected} windows closed, {self.got} groups out with {self.labels} labels: "
            f"{self.missing} missing, {self.duplicated} duplicated, {self.premature} premature or unknown, "
            f"{self.wrong} wrong, {self.disordered} not in the order of time"
        )


def count_labels(data: Path, after_ms: int) -> int:
    """Labels in the whole answer: with skewed keys it grows with the square of the rows."""
    _, _, counts = _ranges(_read_side(data / "left"), _read_side(data / "right"), after_ms)
    return int(counts.sum())


def expected_groups(left: Side, right: Side, after_ms: int) -> Groups:
    """A group per left row, in the order of `left`: the right rows of its key in [time, time + after_ms]."""
    order, lo, counts = _ranges(left, right, after_ms)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    at = np.repeat(lo - offsets[:-1], counts) + np.arange(offsets[-1])
    return Groups(left.ids, offsets, right.ids[order][at])


def _ranges(left: Side, right: Side, after_ms: int) -> tuple[Longs, Longs, Longs]:
    """The right rows' order by key and time; per left row, where its matches begin in it and how many."""
    order = np.lexsort((right.ids, right.times, right.keys))
    # One sortable number for (key, time): the key's rank times a width that no time reaches.
    base = int(min(left.times.min(), right.times.min()))
    width = int(max(left.times.max(), right.times.max())) + after_ms - base + 1
    distinct = np.unique(np.concatenate([left.keys, right.keys]))
    code = np.searchsorted(distinct, right.keys[order]) * width + (right.times[order] - base)
    start = np.searchsorted(distinct, left.keys) * width + (left.times - base)
    lo = np.searchsorted(code, start, "left")
    return order, lo, np.searchsorted(code, start + after_ms, "right") - lo


def check(data: Path, result: Path, *, after_ms: int, delay_ms: int, held_ms: int = 0) -> Verdict:
    """Compares a join's output with the right answer.

    Args:
        data: what `workload.prepare` made.
        result: parquet files with the columns id (of a left row) and labels (ids of its right rows, by time).
        after_ms: the window's length.
        delay_ms: the watermark's delay on both sides.
        held_ms: how long a row may wait after its window has closed.

    Returns:
        the verdict. The rows that may have come out, and no other ones, are those whose window the last
        watermark has reached, which is computed from the data, not taken from the query. Those that can't
        wait any longer must have come out.
    """
    left, right = _read_side(data / "left"), _read_side(data / "right")
    watermark = int(min(left.times.max(), right.times.max())) - delay_ms
    closed = left.times + after_ms <= watermark
    owed = left.times + after_ms + held_ms <= watermark
    want = expected_groups(left, right, after_ms)

    got = _read_groups(result)
    # Ids are 0 to n - 1 by construction, and rows are in their order: an id is a row number.
    ids, first = np.unique(got.ids, return_index=True)
    known = ids < len(left.ids)
    rows = np.minimum(ids, len(left.ids) - 1)
    due = closed[rows] & known
    ours = got.take(first[due])
    theirs = want.take(ids[due])
    return Verdict(
        expected=int(owed.sum()),
        got=len(got.ids),
        labels=len(got.labels),
        missing=int(owed.sum()) - int((owed[rows] & known).sum()),
        duplicated=len(got.ids) - len(ids),
        premature=int((~due).sum()),
        wrong=_count_wrong(ours.sorted_within(), theirs.sorted_within()),
        disordered=_count_disordered(ours, right.times),
    )


def _count_wrong(ours: Groups, theirs: Groups) -> int:
    """Groups that differ; both are of the same rows in the same order, sorted within."""
    alike = np.diff(ours.offsets) == np.diff(theirs.offsets)
    same_size = np.flatnonzero(alike)
    a, b = ours.take(same_size), theirs.take(same_size)
    differing = np.repeat(np.arange(len(same_size)), np.diff(a.offsets))[a.labels != b.labels]
    return int((~alike).sum()) + len(np.unique(differing))


def _count_disordered(groups: Groups, times: Longs) -> int:
    """Groups whose labels are not in the order of their times, by the right side's ids."""
    group = np.repeat(np.arange(len(groups.ids)), np.diff(groups.offsets))
    time = times[np.minimum(groups.labels, len(times) - 1)]
    back = (group[1:] == group[:-1]) & (time[1:] < time[:-1])
    return len(np.unique(group[1:][back]))


def _read_side(path: Path) -> Side:
    table = pq.read_table(path, columns=["id", "key", "ts"])
    times = table["ts"].cast(pa.int64()).to_numpy() // 1000
    return Side(table["id"].to_numpy(), table["key"].to_numpy(), times)


def _read_groups(path: Path) -> Groups:
    table = pq.read_table(path, columns=["id", "labels"])
    counts = pc.list_value_length(table["labels"]).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Groups(table["id"].to_numpy(), offsets, pc.list_flatten(table["labels"]).to_numpy())
