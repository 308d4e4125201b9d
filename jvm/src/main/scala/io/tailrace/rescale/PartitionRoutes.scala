package io.tailrace.rescale

import scala.util.control.NonFatal

import io.tailrace.common.Errors
import io.tailrace.rewrite.{JoinState, RewriteErrors, RowRoute, RowRoutes}
import io.tailrace.state.{LiveSection, RunCursor}

/** Each row goes to the partition of its key. */
private[rescale] object PartitionRoutes extends RowRoutes {
  override def of(join: JoinState, partition: Int): RowRoute = new PartitionRoute(
    new RowTargets(join.keys, partition, join.before.layout.partitions, join.after.layout.partitions)
  )
}

private final class PartitionRoute(targets: RowTargets) extends RowRoute {
  override def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int =
    try targets.of(keyed.base, keyed.at)
    catch {
      case e: RowTargets.ElsewhereException =>
        throw Errors.stateFileCorrupt(live.local.name, s"it has a row of partition ${e.partition}")
      // A key that isn't of the types.
      case NonFatal(e) => throw RewriteErrors.keysUnreadable(live.local.name, targets.types, e)
    }

  override def seq(of: Long): Long = targets.seq(of).getOrElse {
    throw RescaleErrors.tooMany(s"rows of a batch in the partitions that come together, ${targets.sources}")
  }
}
