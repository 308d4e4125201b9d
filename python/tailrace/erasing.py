"""Rows that are erased from a checkpoint's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence


@dataclass(frozen=True)
class ErasedSide:
    """The rows of one side of a join.

    Attributes:
        operator: the join's number in the query.
        name: the operator's name in the query's progress.
        side: `left`, `right`, or `matches`: right rows that eager matching has found for buffered left rows.
        applies: whether the side has all columns of the condition.
        erased: how many of its rows were erased.
    """

    operator: int
    name: str
    side: str
    applies: bool
    erased: int


@dataclass(frozen=True)
class Erased:
    """The result of `erase`: the rows that it has erased, or would erase.

    Attributes:
        checkpoint: the query's checkpointLocation.
        version: of the rewritten state. No earlier one exists any longer.
        dry_run: whether nothing was changed.
        sides: the rows, by join and side.
        rows: the remaining rows, including those that the join keeps for matches and keys; 0 in a dry run.
        bytes: of the new files; 0 in a dry run.
        untouched: the parts that may still have such rows, in words.
    """

    checkpoint: str
    version: int
    dry_run: bool
    sides: tuple[ErasedSide, ...]
    rows: int
    bytes: int
    untouched: tuple[str, ...]


def erase(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    where: str | None = None,
    *,
    subjects: DataFrame | None = None,
    operators: Sequence[int] = (),
    only_tailrace: bool = False,
    dry_run: bool = False,
) -> Erased:
    """Erases rows of a checkpoint's joins, for instance those of a user who wants to be forgotten.

        query.stop()
        tailrace.erase(spark, "/data/checkpoint", "user_id = 7")
        # and start the query again, as before

    The rows are never emitted, neither as left rows nor in the groups of others, and when the call returns
    their bytes are in no file of the state. The query must be stopped, by `stop()` or by a failure. A Spark
    job writes the whole state anew without the rows; then the former files are deleted, with all earlier
    versions. So the query can't be set back behind this point. One that runs in another process, unseen, ends
    with an error of Spark's at its next micro-batch, and is started again then.

    The condition applies to the rows of one side. A key column exists on both sides, by either side's name,
    or as `key.user_id`; any other column is that of one side, written `left.note` or `right.note` if both
    sides have a column of this name. A side that lacks one of the columns keeps its rows, and a join in which
    both sides lack one is refused. A row for which the condition is null stays.

    After an error or a crash the query resumes either with or without the rows. Repeating the call erases
    them.

    Args:
        spark: a session that `configure` has set up.
        checkpoint: the query's checkpointLocation.
        where: a condition of Spark SQL, without subqueries.
        subjects: a batch DataFrame instead. A row is erased if its columns of these names have the values of
            one of the subjects, which all have to fit in memory. They are compared as SQL compares them, by
            the type and the collation of the join's column: `bob` is `Bob` in a column with UTF8_LCASE. A
            null matches nobody. A map can't be compared, and a struct's fields must be in the same order.
        operators: the numbers of the joins to erase from; all of the query's, if empty.
        only_tailrace: whether the query may have other operators with state, Spark's own. They keep their
            rows.
        dry_run: whether the rows are only counted.

    Returns:
        The number of erased rows, and the parts that may still have such rows.

    Raises:
        TailraceStateError: it is no checkpoint of a join, a query runs with it, it has state of other
            operators, or rows of a recursion in feedback mode, or the state can't be read or written.
            `condition` says which.
        TailraceError: neither or both of `where` and `subjects` are given, a column is of no side or of both,
            or a subject's type or value isn't one of the column's.
        AnalysisException: Spark doesn't understand the condition.
        TailraceSessionError: the session lacks the jar or the extension.
    """
    arguments.session(spark)
    path = arguments.path(checkpoint, "checkpoint")
    condition = None if where is None else arguments.text(where, "where")
    if subjects is not None:
        arguments.kind(subjects, DataFrame, "subjects")
    numbers = [arguments.count(number, "operators") for number in operators]
    options = arguments.flags(only_tailrace=only_tailrace, dry_run=dry_run)
    rows = {"where": condition, "subjects": subjects, "operators": numbers}
    told = calls.ask("erase", spark, checkpoint=path, **rows, **options)
    return Erased(
        checkpoint=told["checkpoint"],
        version=told["version"],
        dry_run=told["dryRun"],
        sides=tuple(ErasedSide(**side) for side in told["sides"]),
        rows=told["rows"],
        bytes=told["bytes"],
        untouched=tuple(told["untouched"]),
    )
