package io.tailrace.sync

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.SupportsRead
import org.apache.spark.sql.tailrace.StreamingRelationV2

/** The sources of a side that are read no further while too many rows are held. */
private[sync] object HeldBackSources extends Logging {

  /** @return what the side reads from, if it can't be held back; none: it can, or need not */
  def obstacle(side: LogicalPlan, settings: SyncSettings): Option[String] = settings.maxPending.flatMap { _ =>
    side.collectLeaves().filter(_.isStreaming).collectFirst {
      case source: StreamingRelationV2 if !source.table.isInstanceOf[SupportsRead] => source.table.name
      case leaf if !leaf.isInstanceOf[StreamingRelationV2] => leaf.simpleString(100)
    }
  }

  /** A side without an obstacle. */
  def wrap(plan: LogicalPlan, side: SyncSide, settings: SyncSettings): LogicalPlan = plan.transform {
    case source: StreamingRelationV2 =>
      source.table match {
        case table: SupportsRead => source.copy(table = new HeldBackTable(table, settings, side))
        case _ => source
      }
  }

  /** Tells the user at the start of a query that nothing bounds what is held. */
  def warn(join: String, side: SyncSide, source: String): Unit = logWarning(
    s"TAILRACE_SYNC_UNLIMITED: the join '$join' can't hold back the source of its ${side.name} side, $source: " +
      "while it waits for a partition, all rows that the source gives are held on disk. Limit the source by " +
      "its own options, or say by max_pending=None that it is meant so"
  )
}
