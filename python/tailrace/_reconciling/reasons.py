"""The reasons of differences, as far as rows tell them.

| reason | the difference, and what explains it |
|---|---|
| `late` | missing: the row, with the answer's labels, was written after its window had closed |
| a mark | missing: a marked row of the key: `late_left`, and others that a pipeline marks |
| `amended` | differing or missing: an amendment has the answer's labels |
| `late_right` | differing: the labels that are missing are in marked rows |
| `horizon` | a version: labels that arrived after its horizon. The final version is that of the answer |
| `sampled` | missing or extra: the sample chose by other labels, because one was late |

A key that a side has more than once has no reason, and neither has a difference in a column that doesn't
follow from the labels.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments
from tailrace._reconciling.content import comparable
from tailrace._reconciling.landed import LATE
from tailrace._reconciling.outcomes import SIDES, part
from tailrace._reconciling.subject import FINAL, HORIZON, MARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from tailrace._reconciling.outcomes import Sides
    from tailrace._reconciling.subject import Subject

_AMENDED, _LATE_LEFT, _LATE_RIGHT = "amended", "late_left", "late_right"


def with_reasons(found: DataFrame, sides: Sides) -> DataFrame:
    """Differences with `kind` and `reason`, null where none is known.

    Args:
        found: outcomes, with their rows aside.
        sides: the rows.
    """
    subject = sides.subject
    kind = (
        F.when(F.col("repeated") == 1, "duplicate")
        .when(F.col("missing") > 0, "missing")
        .when(F.col("extra") > 0, "extra")
        .otherwise("differing")
    )
    differences = _with_final_versions(found, sides).where("missing + extra + differing > 0")
    named = differences.withColumns({"kind": kind, "expected": F.coalesce("batch", "whole")})
    explained = _with_late_labels(named, sides)
    reason = (
        F.when(F.col("kind") == "missing", _of_missing(subject))
        .when(F.col("kind") == "extra", _of_extra(subject))
        .when(F.col("kind") == "differing", _of_differing(subject))
    )
    return explained.withColumn("reason", reason)


def _of_missing(subject: Subject) -> Column:
    """The reason of a key without an ordinary row: the row is aside, or the sample has left it out."""

    def has(mark: str) -> Column:
        return F.exists("aside", lambda row: row["mark"].eqNullSafe(F.lit(mark)))

    def has_answer(mark: str) -> Column:
        return F.exists(
            "aside", lambda row: row["mark"].eqNullSafe(F.lit(mark)) & _same_labels(subject, row["content"])
        )

    ours = (_AMENDED, LATE, _LATE_RIGHT)
    other = F.filter(F.transform("aside", lambda row: row["mark"]), lambda mark: ~mark.isin(*ours))
    sampled = (
        F.lit(False)
        if subject.weight is None
        else _any(
            F.arrays_overlap(part("expected", subject, label), F.col(f"late{i}"))
            for i, label in enumerate(subject.labels)
        )
    )
    return (
        F.when(has(_LATE_LEFT), _LATE_LEFT)
        .when(has_answer(_AMENDED), _AMENDED)
        .when(has_answer(LATE), LATE)
        .when(F.size(other) > 0, F.element_at(other, 1))
        .when(sampled, "sampled")
        .when(_version_unchanged(subject), "horizon")
    )


def _of_extra(subject: Subject) -> Column:
    """The reason of a key that the answer lacks: its sample has left it out, or no version has changed."""
    in_whole = F.col("whole").isNotNull() & ~_same_labels(subject, F.col("landed"))
    return F.when(in_whole & (_late_right(subject) | _amended(subject)), "sampled").when(
        _version_unchanged(subject), "horizon"
    )


def _of_differing(subject: Subject) -> Column:
    of_labels = F.array(*(F.lit(name) for name in (*subject.labels, *subject.derived))).cast("array<string>")
    follows = F.size(F.array_except("columns", of_labels)) == 0
    return (
        F.when(follows & _amended(subject), _AMENDED)
        .when(follows & _late_right(subject), _LATE_RIGHT)
        .when(follows & _after_horizon(subject), "horizon")
    )


def _amended(subject: Subject) -> Column:
    return F.exists(
        "aside",
        lambda row: row["mark"].eqNullSafe(F.lit(_AMENDED)) & _same_labels(subject, row["content"]),
    )


def _late_right(subject: Subject) -> Column:
    """Each label is that of the answer, or lacks marked labels alone.

    A label that keeps the first of its events has another one in place of one that is missing.
    """

    def lacks(i: int, label: str) -> Column:
        ours, theirs = part("landed", subject, label), part("expected", subject, label)
        lost, gained = F.array_except(theirs, ours), F.array_except(ours, theirs)
        replaced = F.lit(True) if label in subject.choosing else F.size(gained) == 0
        return (F.size(lost) > 0) & (F.size(F.array_except(lost, F.col(f"late{i}"))) == 0) & replaced

    same = [part("landed", subject, x).eqNullSafe(part("expected", subject, x)) for x in subject.labels]
    either = (one | lacks(i, label) for i, (one, label) in enumerate(zip(same, subject.labels, strict=True)))
    return F.coalesce(_all(either) & ~_all(same), F.lit(False))


def _same_labels(subject: Subject, content: Column) -> Column:
    """True if a content has the labels of the answer."""
    return _all(
        comparable(content.getField(subject.at(label)), subject.type_of(label)).eqNullSafe(
            part("expected", subject, label)
        )
        for label in subject.labels
    )


def _after_horizon(subject: Subject) -> Column:
    """A version lacks labels of the answer's that its final version has."""
    if not subject.has_versions:
        return F.lit(False)
    fewer = _all(
        F.size(F.array_except(part("landed", subject, label), part("batch", subject, label))) == 0
        for label in subject.labels
    )
    return F.coalesce(_is_caught_up(subject) & fewer, F.lit(False))


def _version_unchanged(subject: Subject) -> Column:
    """A version that only one side has emitted, because the labels of a horizon arrived after it."""
    if not subject.has_versions or subject.all_versions:
        return F.lit(False)
    fewer = _all(
        F.size(F.array_except(part("landed", subject, label), part("final_batch", subject, label))) == 0
        for label in subject.labels
    )
    return F.coalesce(_is_caught_up(subject) & (F.col("landed").isNull() | fewer), F.lit(False))


def _is_caught_up(subject: Subject) -> Column:
    """True for a provisional version whose final one has the labels of the answer."""
    same = _all(
        part("final_landed", subject, label).eqNullSafe(part("final_batch", subject, label))
        for label in subject.labels
    )
    of_final = F.coalesce("landed", "batch").getField(subject.at(FINAL))
    return F.col("final_batch").isNotNull() & same & ~of_final


def _with_late_labels(differences: DataFrame, sides: Sides) -> DataFrame:
    """Adds `late0`, `late1`...: for each label, the marked labels with the key's values of `group`."""
    subject, aside = sides.subject, sides.aside
    none = {
        f"late{i}": F.filter(part("expected", subject, label), lambda _: F.lit(False))
        for i, label in enumerate(subject.labels)
    }
    values = [value for name in subject.group if (value := _value(subject, name)) is not None]
    if aside is None or not none or not values or len(values) < len(subject.group):
        return differences.withColumns(none) if none else differences
    names = [f"group{i}" for i in range(len(values))]
    groups = [
        F.flatten(F.collect_list(comparable(arguments.named(label), subject.type_of(label)))).alias(
            f"late{i}"
        )
        for i, label in enumerate(subject.labels)
    ]
    keys = [arguments.named(name).alias(at) for name, at in zip(subject.group, names, strict=True)]
    late = aside.where(arguments.named(MARK) == _LATE_RIGHT).groupBy(*keys).agg(*groups)
    same = (value == F.col(name) for value, name in zip(values, names, strict=True))
    joined = differences.join(late, _all(same), "left").drop(*names)
    return joined.withColumns({name: F.coalesce(name, empty) for name, empty in none.items()})


def _with_final_versions(found: DataFrame, sides: Sides) -> DataFrame:
    """Adds `final_landed` and `final_batch`, the contents of the final version of an example."""
    subject = sides.subject
    if not subject.has_versions:
        return found
    keys = [key for key, name in zip(sides.keys(), subject.keys, strict=True) if name != HORIZON]
    versions = Window.partitionBy(*keys)

    def final(side: str) -> Column:
        is_final = F.col(side).getField(subject.at(FINAL)) & (F.col("repeated") == 0)
        return F.first(F.when(is_final, F.col(side)), ignorenulls=True).over(versions)

    return found.withColumns({f"final_{side}": final(side) for side in SIDES})


def _value(subject: Subject, name: str) -> Column | None:
    """The value of a column in an outcome; None if the outcome lacks the column."""
    if name in subject.keys:
        return F.col(f"k{subject.keys.index(name)}")
    if name in subject.columns:
        at = subject.at(name)
        return F.coalesce(F.col("batch").getField(at), F.col("landed").getField(at))
    return None


def _all(conditions: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one & other, conditions, F.lit(True))


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one | other, conditions, F.lit(False))
