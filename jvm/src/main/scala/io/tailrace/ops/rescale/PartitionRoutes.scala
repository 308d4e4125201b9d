package io.tailrace.ops.rescale

import java.util.Arrays

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.types.DataType

import io.tailrace.common.Errors.stateError
import io.tailrace.common.TailraceStateException
import io.tailrace.join.KeyPartitions
import io.tailrace.ops.rewrite.{JoinState, RewriteErrors, RowRoute, RowRoutes}
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

  /** The count of all rows, including those that the join keeps for matches and keys. */
  val All = "all"
}

/** Computes the target of each row, and counts the rows that users know, by side. */
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
    kind.side.filterNot(_ => isKeyAlone).foreach(side => count(side.name))
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

/** The partitions that the rows of one partition belong to when there are `after` instead of `before`: those
  * to which Spark's shuffle will send later rows of their keys.
  *
  * {{{
  *   4 to 16    partition 1 ──> 1 5 9 13          one source for each new partition
  *   4 to 6     partition 1 ──> 1 3 5             two sources for each
  *   4 to 7     partition 1 ──> 0 1 2 3 4 5 6     four
  * }}}
  *
  * @param keys types of the key columns
  */
private[rescale] final class RowTargets(keys: Seq[DataType], partition: Int, before: Int, after: Int) {
  private val partitions = new KeyPartitions(keys, Seq(before, after))
  private val common = JoinState.common(before, after)

  /** The key columns' types, for errors. */
  def types: String = keys.map(_.sql).mkString(", ")

  /** The number of old partitions whose rows go into one new partition. */
  val sources: Int = before / common

  private val reached = partition % common until after by common
  private var lastKey = Array.emptyByteArray
  private var last = -1

  /** Rows without a key match nothing, and may be anywhere. They are spread.
    *
    * @throws RowTargets.ElsewhereException if the row doesn't belong to this partition
    */
  def of(base: AnyRef, at: Long): Int =
    if (RowLayout.keyLength(base, at) == 0)
      reached(java.lang.Long.remainderUnsigned(RowLayout.seq(base, at), reached.size.toLong).toInt)
    else {
      val key = RowLayout.keyBytes(base, at)
      if (last < 0 || !Arrays.equals(key, lastKey)) {
        val found = partitions.of(key)
        if (found.getInt(0) != partition) throw new RowTargets.ElsewhereException(found.getInt(0))
        lastKey = key
        last = found.getInt(1)
      }
      last
    }

  /** A sequence number for a row that comes together with rows of other partitions. Those of each version
    * take turns, so that the order within a partition stays.
    *
    * @return none if there are too many rows to distinguish all of them
    */
  def seq(of: Long): Option[Long] = {
    val inBatch = (of & RowTargets.InBatch) * sources + partition / common
    Option.when(inBatch <= RowTargets.InBatch)((of & ~RowTargets.InBatch) | inBatch)
  }
}

private[rescale] object RowTargets {

  /** The bits of a sequence number that count the rows of a batch. */
  private val InBatch = (1L << 32) - 1

  final class ElsewhereException(val partition: Int) extends Exception
}

/** The errors of a rescaling. */
object RescaleErrors {

  def inUse(checkpoint: String): TailraceStateException =
    stateError("TAILRACE_STATE_RESCALE_IN_USE", null, "path" -> checkpoint)

  /** @param operators of Spark's, each with the reason why it can't be rescaled */
  def unsupported(checkpoint: String, operators: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_RESCALE_UNSUPPORTED",
    null,
    "path" -> checkpoint,
    "operators" -> operators.mkString(", ")
  )

  /** The state of Spark's operators is rewritten between two batches only. */
  def open(checkpoint: String, batch: Long, operators: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_RESCALE_OPEN_BATCH",
    null,
    "path" -> checkpoint,
    "batch" -> batch,
    "operators" -> operators.mkString(", ")
  )

  /** @param partitions that the batch began with */
  def cutOff(checkpoint: String, batch: Long, partitions: Int): TailraceStateException = stateError(
    "TAILRACE_STATE_RESCALE_CUT_OFF",
    null,
    "path" -> checkpoint,
    "batch" -> batch,
    "partitions" -> partitions
  )

  /** @param what the things that would be too many: "sections in a partition" */
  def tooMany(what: String): TailraceStateException =
    stateError("TAILRACE_STATE_RESCALE_TOO_MANY", null, "what" -> what)
}
