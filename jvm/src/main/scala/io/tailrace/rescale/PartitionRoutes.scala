package io.tailrace.rescale

import scala.collection.mutable
import scala.util.control.NonFatal

import io.tailrace.join.Side
import io.tailrace.rewrite.{JoinState, RewriteErrors, RowRoute, RowRoutes}
import io.tailrace.state.{LiveSection, RowLayout, RunCursor, StoreKind}

/** Each row goes to the partition of its key.
  *
  * @param dry no row is written, and all are counted
  */
private[rescale] final class PartitionRoutes(dry: Boolean) extends RowRoutes {
  override def of(join: JoinState, partition: Int): RowRoute = {
    val route = new PartitionRoute(
      new RowTargets(join.keys, partition, join.before.layout.partitions, join.after.layout.partitions)
    )
    if (dry) new CountedRoute(route) else route
  }
}

private[rescale] object PartitionRoutes {

  /** The count of all rows, with those that the join keeps of matches and keys. */
  val All = "all"
}

/** Looks where each row would go, and counts those that users know, by side. */
private final class CountedRoute(route: RowRoute) extends RowRoute {
  private val found = mutable.LinkedHashMap.empty[String, Long]

  override def counts: Map[String, Long] = found.toMap

  private def count(what: String): Unit =
    found.updateWith(what)(of => Some(of.getOrElse(0L) + 1)): Unit

  override def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int = {
    route.target(live, row, keyed): Unit
    route.seq(row.seq): Unit
    count(PartitionRoutes.All)
    val kind = live.section.kind
    // Eager matching keeps the keys of left rows again, without the rows.
    val isKeyAlone = kind == StoreKind.LeftKeySorted && RowLayout.valueLength(row.base, row.at) == 0
    Side.of(kind).filterNot(_ => isKeyAlone).foreach(count)
    RowRoute.Nowhere
  }
}

private final class PartitionRoute(targets: RowTargets) extends RowRoute {
  override def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int =
    try targets.of(keyed.base, keyed.at)
    catch {
      case e: RowTargets.ElsewhereException =>
        throw live.local.corrupt(s"it has a row of partition ${e.partition}")
      // A key that isn't of the types.
      case NonFatal(e) => throw RewriteErrors.keysUnreadable(live.local.name, targets.types, e)
    }

  override def seq(of: Long): Long = targets.seq(of).getOrElse {
    throw RescaleErrors.tooMany(s"rows of a batch in the partitions that come together, ${targets.sources}")
  }
}
