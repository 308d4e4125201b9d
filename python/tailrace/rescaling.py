"""Another number of state partitions for a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RescaledSide:
    """The rows of one side of a join.

    Attributes:
        operator: the join's number in the query.
        name: the operator's name in the query's progress.
        side: "left" or "right".
        rows: how many the state has. A right row of a salted key is there once for each part of the key.
    """

    operator: int
    name: str
    side: str
    rows: int


@dataclass(frozen=True)
class Rescaled:
    """The result of `rescale`, or of its dry run.

    Attributes:
        before: the number of state partitions that the checkpoint had.
        after: the number that it has now; the same if nothing had to be done.
        rows: the rows of the new state, including those that the join keeps for matches and keys.
        bytes: of the new files; in a dry run, of the files that would be read.
        dry_run: whether nothing was changed.
        sides: the counts of a dry run; empty if nothing has to be done, or if it wasn't a dry run.
    """

    before: int
    after: int
    rows: int
    bytes: int
    dry_run: bool
    sides: tuple[RescaledSide, ...]


def rescale(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    partitions: int,
    *,
    to: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
) -> Rescaled:
    """Gives the joins of a checkpoint another number of state partitions.

        query.stop()
        tailrace.rescale(spark, "/data/checkpoint", 400)
        # and start the query again, as before

    Spark takes `spark.sql.shuffle.partitions` of a streaming query from its checkpoint, so without this
    call it can never change. The query must be stopped, by `stop()` or by a failure; one that runs in another
    process isn't detected before it has begun a micro-batch. The output is the same with either number. A
    Spark job splits the state, with one task for each previous partition. It reads and writes each row once;
    a number that isn't a multiple or divisor of the old one makes more and smaller files.

    After an error or a crash the query resumes with either the old or the new number. If Spark refuses to
    start it, repeat the call. The query deletes the old state when it has completed a micro-batch with the
    new number, and then can't be rolled back to an earlier point.

    Args:
        spark: a session that `configure` has set up.
        checkpoint: the query's checkpointLocation.
        partitions: the new number, 1 or more.
        to: a new checkpointLocation, which gets a copy of the checkpoint with the new number. The old one
            stays as it is. Start the query with one of them only: both know the same sources and sink.
        dry_run: whether the rows are only read and counted.

    Returns:
        The numbers of partitions, and how much was moved.

    Raises:
        TailraceStateError: it is no checkpoint of a join, a query runs with it, it has state of other
            operators than `join` and `sync_join`, a micro-batch was cut off and `partitions` is no multiple
            of its number, or the state can't be read or written. `condition` says which.
        TailraceError: `partitions` isn't 1 or more.
        TailraceSessionError: the session lacks the jar or the extension.
    """
    arguments.session(spark)
    number = arguments.count(partitions, "partitions")
    options = arguments.flags(dry_run=dry_run)
    if to is not None:
        options["to"] = arguments.path(to, "to")
    path = arguments.path(checkpoint, "checkpoint")
    told = calls.ask("rescale", spark, checkpoint=path, partitions=number, **options)
    return Rescaled(
        before=told["before"],
        after=told["after"],
        rows=told["rows"],
        bytes=told["bytes"],
        dry_run=told["dryRun"],
        sides=tuple(RescaledSide(**side) for side in told["sides"]),
    )
