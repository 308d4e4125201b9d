"""Another number of state partitions for a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tailrace import _convert, _jvm

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class Rescaled:
    """What `rescale` has done.

    Attributes:
        before: the number of state partitions that the checkpoint had.
        after: the number that it has now; the same if nothing had to be done.
        rows: how many rows the new state has, with those that the join keeps of matches and keys.
        bytes: of the new files.
    """

    before: int
    after: int
    rows: int
    bytes: int


def rescale(spark: SparkSession, checkpoint: str | os.PathLike[str], partitions: int) -> Rescaled:
    """Gives the joins of a checkpoint another number of state partitions.

        query.stop()
        tailrace.rescale(spark, "/data/checkpoint", 400)
        # and start the query again, as before

    Spark takes `spark.sql.shuffle.partitions` of a streaming query from its checkpoint, so that without this
    it is for life. The query must be stopped, by `stop()` or by a failure; one that runs in another process
    isn't noticed before it has begun a micro-batch. The same rows come out, with either number. A Spark job
    splits the state, with a task for each partition of before. It reads and writes each row once; a number
    that is no multiple or divisor of the old one makes more and smaller files.

    After an error or a crash the query goes on with the old number, or with the new one. Where Spark refuses
    to start it, the same call again helps. The query deletes the old state when it has completed a
    micro-batch with the new number, and can't be set back behind this point then.

    Args:
        spark: a session that `configure` has set up.
        checkpoint: the query's checkpointLocation.
        partitions: the new number, 1 or more.

    Returns:
        The numbers of partitions, and how much was moved.

    Raises:
        TailraceStateError: it is no checkpoint of a join, a query runs with it, it has state of other
            operators than `join` and `sync_join`, a micro-batch was cut off and `partitions` is no multiple
            of its number, or the state can't be read or written. `condition` says which.
        TailraceError: `partitions` isn't 1 or more.
        TailraceSessionError: the session lacks the jar or the extension.
    """
    _convert.kind(spark, SparkSession, "spark")
    number = _convert.count(partitions, "partitions")
    return Rescaled(*_jvm.rescaled(spark, _convert.path(checkpoint, "checkpoint"), number))
