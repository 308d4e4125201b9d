"""The right answer to the demo's join, by brute force, and its comparison with Spark's output."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tailrace.demo.data import Side, Workload

    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Groups of labels: `impression_id` (n,) names them, `pairs` (m, 2) is (impression, engagement) ids."""

    impression_id: Longs
    pairs: Longs


@dataclass(frozen=True)
class Verdict:
    """The comparison of the output with the brute-force answer; counts of groups unless stated otherwise.

    Attributes:
        expected: groups that must be in the output.
        missing: expected groups that are not in the output.
        unexpected: duplicate groups, and groups that are not expected at all.
        wrong_labels: pairs (impression, engagement) that only one of the two has.
        disordered: adjacent labels of a group whose times are in descending order.
    """

    expected: int
    missing: int
    unexpected: int
    wrong_labels: int
    disordered: int

    @property
    def equal(self) -> bool:
        """True if the output is the brute-force answer, each group once, with its labels in order of time."""
        return not (self.missing or self.unexpected or self.wrong_labels or self.disordered)

    def line(self) -> str:
        """The verdict as a sentence."""
        if self.equal:
            return f"checked: {self.expected:,} groups equal the brute-force answer"
        return (
            f"WRONG: of {self.expected:,} groups {self.missing:,} are missing, {self.unexpected:,} are "
            f"there that should not be, {self.wrong_labels:,} labels differ, {self.disordered:,} are out of "
            "order"
        )


def expected_groups(workload: Workload, after_us: int) -> Groups:
    """Computes each impression's labels: same user and item, engaged within `after_us` of being served."""
    left, right = workload.impressions, workload.engagements
    left_key, right_key = _key_ranks(left, right)
    # One sortable number for (key, time): the key's rank times a width that holds every time, plus the time.
    base = min(int(left.time_us.min()), int(right.time_us.min(initial=left.time_us.min())))
    last = max(int(left.time_us.max()), int(right.time_us.max(initial=left.time_us.max())))
    width = last + after_us - base + 1
    order = np.lexsort((right.time_us, right_key))
    codes = (right_key * width + right.time_us - base)[order]
    left_code = left_key * width + left.time_us - base
    low = np.searchsorted(codes, left_code, "left")
    high = np.searchsorted(codes, left_code + after_us, "right")
    counts = high - low
    starts = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    engagement_id = right.id[order][starts + np.arange(int(counts.sum()))]
    return Groups(left.id, np.stack([np.repeat(left.id, counts), engagement_id], axis=1))


@dataclass(frozen=True)
class Totals:
    """The counts of a result: groups, groups with at least one label, and labels."""

    groups: int
    matched: int
    labels: int


@dataclass(frozen=True)
class Result:
    """The query's result: `impression_id` (n,), and `labels` (n,), lists of structs."""

    impression_id: Longs
    labels: pa.Array[Any]

    @property
    def totals(self) -> Totals:
        """Its size."""
        counts = self.label_counts
        return Totals(len(counts), int(np.count_nonzero(counts)), int(counts.sum()))

    @property
    def label_counts(self) -> Longs:
        """Labels of each group."""
        counts: Longs = pc.list_value_length(self.labels).to_numpy(zero_copy_only=False).astype(np.int64)
        return counts


def read(files: Sequence[str]) -> Result:
    """Reads the result.

    Args:
        files: paths of parquet files with impression_id and labels (a list of structs with engagement_id and
            engaged_at).
    """
    if not files:
        label = pa.struct([("engaged_at", pa.timestamp("us", "UTC")), ("engagement_id", pa.int64())])
        return Result(np.array([], np.int64), pa.array([], pa.list_(label)))
    table = pq.ParquetDataset(sorted(files)).read(columns=["impression_id", "labels"])
    return Result(table["impression_id"].to_numpy(), table["labels"].combine_chunks())


def count(files: Sequence[str]) -> int:
    """The number of rows in Parquet files."""
    return sum(pq.read_metadata(file).num_rows for file in files)


def compare(result: Result, expected: Groups) -> Verdict:
    """Compares the query's result with the result of `expected_groups`."""
    counts = result.label_counts
    owner = np.repeat(result.impression_id, counts)
    label = pc.list_flatten(result.labels)
    engagement_id = pc.struct_field(label, "engagement_id").to_numpy(zero_copy_only=False)
    time = pc.struct_field(label, "engaged_at").cast("int64").to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(counts)), counts)
    missing, unexpected = _differences(expected.impression_id[:, None], result.impression_id[:, None])
    lacking, extra = _differences(expected.pairs, np.stack([owner, engagement_id], axis=1))
    return Verdict(
        expected=len(expected.impression_id),
        missing=missing,
        unexpected=unexpected,
        wrong_labels=lacking + extra,
        disordered=int(np.sum((np.diff(time) < 0) & (np.diff(row) == 0))),
    )


def _key_ranks(left: Side, right: Side) -> tuple[Longs, Longs]:
    keys = np.stack(
        [np.concatenate([left.user, right.user]), np.concatenate([left.item, right.item])], axis=1
    )
    _, ranks = np.unique(keys, axis=0, return_inverse=True)
    flat = ranks.reshape(-1).astype(np.int64)
    return flat[: len(left)], flat[len(left) :]


def _differences(expected: Longs, found: Longs) -> tuple[int, int]:
    """Counts the rows of `expected` that `found` lacks, and those that it has too many, duplicates each."""
    rows, ranks = np.unique(np.concatenate([expected, found]), axis=0, return_inverse=True)
    flat = ranks.reshape(-1)
    surplus = np.bincount(flat[len(expected) :], minlength=len(rows)) - np.bincount(
        flat[: len(expected)], minlength=len(rows)
    )
    return int(-surplus[surplus < 0].sum()), int(surplus[surplus > 0].sum())
