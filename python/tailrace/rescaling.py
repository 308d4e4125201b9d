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
        rows: how many rows were moved.
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
    it is for life. The query must be stopped, by `stop()` or by a failure: a micro-batch that was cut off
    runs again with the new number. What comes out is what would have come out with that number from the
    start. A Spark job splits the state, with a task for each partition of before. It reads and writes each
    row once where one number is a multiple of the other; others make more and smaller files.

    An error or a crash leaves the query with the old number, or with the new one; the same call goes on from
    there. Earlier versions of the state are deleted in the end, so that the query can't be set back behind
    this point.

    Args:
        spark: a session that `configure` has set up.
        checkpoint: the query's checkpointLocation.
        partitions: the new number, 1 or more.

    Returns:
        The numbers of partitions, and how much was moved.

    Raises:
        TailraceStateError: it is no checkpoint of a join, a query runs with it, it has state of other
            operators than `join` and `sync_join`, or its state can't be read or written.
        TailraceError: `partitions` isn't 1 or more.
        TailraceSessionError: the session lacks the jar or the extension.
    """
    _convert.kind(spark, SparkSession, "spark")
    number = _convert.count(partitions, "partitions")
    return Rescaled(*_jvm.rescaled(spark, _convert.path(checkpoint, "checkpoint"), number))
