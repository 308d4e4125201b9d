"""The subject of a comparison: keys, time, columns and labels of examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import ArrayType, StructType

from tailrace._bridge import arguments, calls
from tailrace._reconciling.content import is_comparable
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from tailrace.examples import Described

CALL = "tailrace.reconcile"
MARK = "_mark"
HORIZON, FINAL = "horizon", "final"
# `changed` compares a version with the one before it: it tells of the order of arrival.
_NOT_COMPARED = (MARK, "changed")


@dataclass(frozen=True)
class Subject:
    """The columns of examples by their roles. Names are those of the batch answer.

    Attributes:
        keys: identify an example. Of versions, `horizon` is among them.
        time: the event time, by which an example is in a window.
        columns: those that are compared, without the keys; labels are among them.
        types: of the compared columns.
        labels: the columns of labels, arrays of structs.
        choosing: the labels in which another event takes the place of one that is missing: by `match` or
            `max_matches`.
        derived: compared columns that follow from the labels.
        group: the key columns that late labels have.
        weight: the column with the weight of a sampled row; None without a sample.
        all_versions: each example has each version, so that a missing one is lost.
    """

    keys: tuple[str, ...]
    time: str
    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    labels: tuple[str, ...]
    choosing: frozenset[str]
    derived: frozenset[str]
    group: tuple[str, ...]
    weight: str | None
    all_versions: bool

    @property
    def has_versions(self) -> bool:
        """True if an example has several rows, one for each horizon."""
        return HORIZON in self.keys

    def at(self, name: str) -> str:
        """The field of a compared column in a row's content."""
        return f"c{self.columns.index(name)}"

    def type_of(self, name: str) -> DataType:
        """The type of a compared column."""
        return self.types[self.columns.index(name)]


@dataclass(frozen=True)
class Asked:
    """The arguments of `tailrace.reconcile` that name columns; None for those that weren't given."""

    keys: Sequence[str] | None
    time: str | None
    on: Sequence[str] | None
    labels: Sequence[str] | None
    columns: Sequence[str] | None


def subject_of(batch: DataFrame, of_examples: Described | None, asked: Asked) -> Subject:
    """The columns by their roles: those that were named, and those of the definition.

    Raises:
        TailraceJoinError: a column doesn't exist, or has a type that doesn't fit.
        TypeError: keys or time are missing, and the answer is no definition's.
    """
    keys = of_examples.keys if asked.keys is None and of_examples else asked.keys
    time = of_examples.time if asked.time is None and of_examples else asked.time
    if keys is None or time is None:
        argument = "keys" if keys is None else "time"
        raise TypeError(
            f"`{argument}` is missing: name it, because a DataFrame has no definition to take it from."
        )
    calls.check_time(batch, CALL, "time", time)
    has_versions = {HORIZON, FINAL} <= set(batch.columns)
    identity = tuple(dict.fromkeys((*keys, *((HORIZON,) if has_versions else ()))))
    for name in identity:
        calls.check_column(batch, CALL, "keys", name)
        _check_key(batch, name)
    names = batch.columns if asked.columns is None else asked.columns
    if has_versions:
        names = [*names, FINAL]
    columns = _compared(batch, identity, names)
    types = tuple(batch.select(arguments.named(name)).schema[0].dataType for name in columns)
    labels = asked.labels
    if labels is None and of_examples is not None:
        labels = [label for label in of_examples.labels if label in columns]
    chosen = labels_of(columns, types, labels)
    weight = None if of_examples is None else of_examples.weight
    derived = {weight, *(f"{label}_truncated" for label in chosen)}
    common = of_examples.common if of_examples else [key for key in identity if key not in (time, HORIZON)]
    limited = dict.fromkeys(chosen, True) if of_examples is None else of_examples.labels
    return Subject(
        keys=identity,
        time=time,
        columns=columns,
        types=types,
        labels=chosen,
        choosing=frozenset(label for label in chosen if limited.get(label, True)),
        derived=frozenset(name for name in columns if name in derived),
        group=tuple(common if asked.on is None else asked.on),
        weight=weight,
        all_versions=of_examples is None or of_examples.emit == "all",
    )


def _compared(batch: DataFrame, keys: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    for name in columns:
        calls.check_column(batch, CALL, "columns", name)
    return tuple(name for name in dict.fromkeys(columns) if name not in keys and name not in _NOT_COMPARED)


def _check_key(batch: DataFrame, name: str) -> None:
    kind = batch.select(arguments.named(name)).schema[0].dataType
    if not is_comparable(kind):
        raise TailraceJoinError(
            f"The key column `{name}` is {kind.simpleString()}, by which Spark can't group. "
            "Name other `keys`.",
            condition="TAILRACE_COLUMN_TYPE",
            parameters={"argument": "keys", "column": name, "type": kind.simpleString()},
        )


def labels_of(
    columns: Sequence[str], types: Sequence[DataType], labels: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns of labels: those that were named, or all arrays of structs.

    Raises:
        TailraceJoinError: a named column isn't a compared one, or isn't an array of structs.
    """
    groups = [
        name
        for name, kind in zip(columns, types, strict=True)
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)
    ]
    for name in () if labels is None else labels:
        if name not in groups:
            shown = ", ".join(f"`{one}`" for one in groups) or "none"
            raise arguments.refused(
                CALL, "labels", name, f"a compared array of structs, of which there are {shown}"
            )
    return tuple(groups if labels is None else labels)


def check_landed(landed: DataFrame, batch: DataFrame, subject: Subject) -> None:
    """Checks that the landed rows have the columns of the batch answer, in the same types.

    Raises:
        TailraceJoinError: a column is missing, or has another type.
    """
    for name in (*subject.keys, *subject.columns):
        calls.check_column(landed, CALL, "landed", name)
        ours, theirs = (frame.select(arguments.named(name)).schema[0].dataType for frame in (landed, batch))
        if ours.simpleString() != theirs.simpleString():
            raise TailraceJoinError(
                f"The column `{name}` is {ours.simpleString()} in `landed`, and {theirs.simpleString()} in "
                "the batch answer. Cast one of them, or name the columns to compare with `columns`.",
                condition="TAILRACE_COLUMN_TYPE",
                parameters={"argument": "landed", "column": name, "type": ours.simpleString()},
            )


def is_marked(frame: DataFrame) -> Column:
    """True for rows that have a mark: they are no ordinary examples."""
    return arguments.named(MARK).isNotNull() if MARK in frame.columns else F.lit(False)
