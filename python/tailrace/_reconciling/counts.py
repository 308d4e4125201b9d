"""The counts of a reconciliation: by window, by window and label, and by kind and reason of a difference.

Only these are collected. There are as many rows as windows and labels, however many examples there are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._reconciling.outcomes import FACTS, SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tailrace._reconciling.subject import Subject

_THOUSAND = 1000
_OF_WINDOW = ("landed_rows", "batch_rows", "missing", "extra", "differing", "repeated")


@dataclass(frozen=True)
class SideCounts:
    """The examples of a side in a window, by a label.

    Attributes:
        rows: examples whose label is known.
        matched: those with a label.
        labels: all of them together.
        weight: of the rows; their number if there is no sample.
        matched_weight: of those with a label.
    """

    rows: int
    matched: int
    labels: int
    weight: float
    matched_weight: float

    @property
    def rate(self) -> float | None:
        """The share of examples with a label, by their weights; None if there is none."""
        return self.matched_weight / self.weight if self.weight else None


@dataclass
class LabelCounts:
    """A label in a window: both sides, and the keys whose label differs."""

    landed: SideCounts
    batch: SideCounts
    differing: int
    explained: int = 0


@dataclass
class WindowCounts:
    """A window: rows of both sides, and the differences between them.

    Attributes:
        start: microseconds since 1970; None for rows without a time.
        status: "compared", "open", "outside" or "untimed".
        landed_rows: ordinary landed examples.
        batch_rows: examples of the batch answer.
        missing: those of the answer that haven't landed.
        extra: landed ones that the answer lacks.
        differing: those that both have, with other values.
        repeated: keys that a side has more than once.
        labels: by name.
        reasons: the differences by kind and reason; the reason is None if none is known.
    """

    start: int | None
    status: str
    landed_rows: int = 0
    batch_rows: int = 0
    missing: int = 0
    extra: int = 0
    differing: int = 0
    repeated: int = 0
    labels: dict[str, LabelCounts] = field(default_factory=dict[str, LabelCounts])
    reasons: dict[tuple[str, str | None], int] = field(default_factory=dict[tuple[str, str | None], int])

    @staticmethod
    def empty(start: int, labels: Sequence[str]) -> WindowCounts:
        """A window without rows."""
        none = SideCounts(0, 0, 0, 0.0, 0.0)
        return WindowCounts(start, "", labels={label: LabelCounts(none, none, 0) for label in labels})

    @property
    def is_compared(self) -> bool:
        """The window is complete, and in the range that was asked for."""
        return self.status == "compared"

    @property
    def differences(self) -> int:
        """Rows that are missing, extra or differ."""
        return self.missing + self.extra + self.differing

    @property
    def explained(self) -> int:
        """Those of them that have a reason."""
        return sum(count for (_, reason), count in self.reasons.items() if reason is not None)

    def per_thousand(self, differences: int) -> float | None:
        """Differences per thousand rows of the batch answer; None if it has no row and there are some."""
        return _per_thousand(differences, self.batch_rows)


def window_counts(found: DataFrame, subject: Subject) -> list[WindowCounts]:
    """The counts of all windows, without their status and reasons, in order of time."""
    of_labels = [
        F.sum(f"{side}_{name}{i}").alias(f"{side}_{name}{i}")
        for i in range(len(subject.labels))
        for side in SIDES
        for name in FACTS
    ]
    rows = (
        found.groupBy("start")
        .agg(
            *(F.sum(name).alias(name) for name in _OF_WINDOW),
            *of_labels,
            *(F.sum(label_differs(subject, i)).alias(f"differing{i}") for i in range(len(subject.labels))),
        )
        .orderBy("start")
        .collect()
    )
    counted: list[WindowCounts] = []
    for row in rows:
        labels: dict[str, LabelCounts] = {}
        for i, label in enumerate(subject.labels):
            landed, batch = (SideCounts(*(row[f"{side}_{name}{i}"] or 0 for name in FACTS)) for side in SIDES)
            labels[label] = LabelCounts(landed, batch, row[f"differing{i}"])
        numbers = {name: row[name] for name in _OF_WINDOW}
        counted.append(WindowCounts(row.start, "", labels=labels, **numbers))
    return counted


def label_differs(subject: Subject, label: int) -> Column:
    """The number of a key's rows whose label differs. Rows of a repeated key count for each label."""
    differs = F.array_contains("columns", subject.labels[label])
    return F.when(F.col("repeated") == 1, F.col("differing")).otherwise(differs.cast("bigint"))


def count_reasons(
    differences: DataFrame, windows: Mapping[int | None, WindowCounts], subject: Subject
) -> None:
    """Adds the reasons of the differences to the counts of their windows."""
    labels = range(len(subject.labels))
    numbers = F.col("missing") + F.col("extra") + F.col("differing")
    rows = (
        differences.groupBy("start", "kind", "reason")
        .agg(
            F.sum(numbers).alias("rows"),
            *(
                F.sum(F.col("missing") + F.col("extra") + label_differs(subject, i)).alias(f"rows{i}")
                for i in labels
            ),
        )
        .collect()
    )
    for row in rows:
        window = windows.get(row.start)
        if window is None:
            # Its rows weren't there when they were counted. Such a difference stays unexplained.
            continue
        window.reasons[row.kind, row.reason] = row.rows
        if row.reason is not None:
            for i, label in enumerate(subject.labels):
                window.labels[label].explained += row[f"rows{i}"]


@dataclass(frozen=True)
class Totals:
    """The counts of all compared windows.

    Attributes:
        windows: the number of them.
        landed_rows: as in `WindowCounts`; likewise the others.
        batch_rows: examples of the batch answer.
        missing: those of the answer that haven't landed.
        extra: landed ones that the answer lacks.
        differing: those that both have, with other values.
        explained: the differences that have a reason.
        reasons: the differences by kind and reason.
    """

    windows: int
    landed_rows: int
    batch_rows: int
    missing: int
    extra: int
    differing: int
    explained: int
    reasons: Mapping[tuple[str, str | None], int]

    @staticmethod
    def of(windows: Sequence[WindowCounts]) -> Totals:
        """The sums of the windows that are compared."""
        compared = [window for window in windows if window.is_compared]
        reasons: defaultdict[tuple[str, str | None], int] = defaultdict(int)
        for window in compared:
            for key, count in window.reasons.items():
                reasons[key] += count
        return Totals(
            len(compared),
            sum(window.landed_rows for window in compared),
            sum(window.batch_rows for window in compared),
            sum(window.missing for window in compared),
            sum(window.extra for window in compared),
            sum(window.differing for window in compared),
            sum(window.explained for window in compared),
            dict(reasons),
        )

    @property
    def differences(self) -> int:
        """Rows that are missing, extra or differ."""
        return self.missing + self.extra + self.differing

    @property
    def ordered_reasons(self) -> list[tuple[tuple[str, str | None], int]]:
        """The reasons as people read them: unexplained differences first, then the most frequent."""
        return sorted(self.reasons.items(), key=lambda one: (one[0][1] is not None, -one[1]))

    @property
    def per_thousand(self) -> float | None:
        """Differences per thousand rows of the batch answer; None if it has no row and there are some."""
        return _per_thousand(self.differences, self.batch_rows)


def _per_thousand(differences: int, rows: int) -> float | None:
    if rows:
        return differences * _THOUSAND / rows
    return None if differences else 0.0
