"""The right answer to the demo's join, by brute force, and its comparison with Spark's output."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

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
    """How the output compares with the brute-force answer; counts of groups unless said.

    Attributes:
        expected: groups that must be there.
        missing: expected and not there.
        unexpected: there once too often, or not expected at all.
        wrong_labels: pairs (impression, engagement) that only one of the two has.
        disordered: neighbouring labels of a group whose times run backwards.
    """

    expected: int
    missing: int
    unexpected: int
    wrong_labels: int
    disordered: int

    @property
    def equal(self) -> bool:
        """Whether the output is the brute-force answer, each group once, with its labels in order of time."""
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


def compare(examples_dir: Path, expected: Groups) -> Verdict:
    """Compares the query's parquet output with the expected groups.

    Args:
        examples_dir: directory of parquet files with impression_id and labels (a list of structs with
            engagement_id and engaged_at).
        expected: the result of `expected_groups`.
    """
    files = sorted(examples_dir.glob("*.parquet"))
    if not files:
        return Verdict(len(expected.impression_id), len(expected.impression_id), 0, len(expected.pairs), 0)
    table = pq.ParquetDataset([str(file) for file in files]).read(columns=["impression_id", "labels"])
    labels = table["labels"].combine_chunks()
    impression_id = table["impression_id"].to_numpy()
    owner = np.repeat(impression_id, pc.list_value_length(labels).to_numpy(zero_copy_only=False))
    label = pc.list_flatten(labels)
    engagement_id = pc.struct_field(label, "engagement_id").to_numpy(zero_copy_only=False)
    time = pc.struct_field(label, "engaged_at").cast("int64").to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(table)), pc.list_value_length(labels).to_numpy(zero_copy_only=False))
    missing, unexpected = _differences(expected.impression_id[:, None], impression_id[:, None])
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
