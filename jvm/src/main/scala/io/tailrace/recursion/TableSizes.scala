package io.tailrace.recursion

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.UnsafeRows

/** How large tables of op turned out to be, over all micro-batches of a recursion: those that can't change, as what
  * `createDataFrame` makes of rows in memory.
  */
private[tailrace] final class TableSizes {
  private val known = new ConcurrentHashMap[LogicalPlan, java.lang.Long]

  def of(table: LogicalPlan)(measure: => Long): Long =
    if (table.collectLeaves().forall(TableSizes.isFixed) && table.deterministic) {
      val key = table.canonicalized
      Option(known.get(key)).fold {
        val bytes = measure
        known.put(key, bytes)
        bytes
      }(_.longValue)
    } else measure
}

private[recursion] object TableSizes {
  private def isFixed(leaf: LogicalPlan): Boolean = leaf match {
    case _: LogicalRDD | _: LocalRelation | _: Range => true
    case _ => false
  }

  /** The bytes of a table's rows. Each task stops when it has seen enough.
    *
    * @param enough bytes from which on it doesn't matter how many more there are
    */
  def measured(rows: RDD[InternalRow], columns: Seq[Attribute], enough: Long): Long =
    rows.sparkContext
      .runJob(
        rows,
        (_: TaskContext, part: Iterator[InternalRow]) => {
          val toUnsafe = new UnsafeRows(columns)
          var bytes = 0L
          while (bytes <= enough && part.hasNext) bytes += toUnsafe(part.next()).getSizeInBytes
          bytes
        }
      )
      .sum
}

/** Has tables that op joins broadcast, of which Spark doesn't know that they are small: it has no size of what
  * `createDataFrame` makes of rows, of many sources, and of what a function in Python gives, and multiplies the sizes of
  * both sides of a join. Without that rows would go round by an exchange and a job a hop.
  *
  * @param enough bytes up to which a table is small
  */
private[recursion] final class SmallTables(
    planning: SparkSession,
    argument: Long,
    enough: Long,
    sizes: TableSizes
) {
  private val threshold = planning.sessionState.conf.autoBroadcastJoinThreshold

  def hinted(plan: LogicalPlan): LogicalPlan =
    // Below zero the user wants no broadcast.
    if (threshold < 0) plan
    else
      plan.transformUp {
        case join: Join if readsArgument(join.left) && !readsArgument(join.right) && !isHinted(join) =>
          join.copy(right = broadcastIfSmall(join.right))
        case join: Join if readsArgument(join.right) && !readsArgument(join.left) && !isHinted(join) =>
          join.copy(left = broadcastIfSmall(join.left))
      }

  private def broadcastIfSmall(table: LogicalPlan): LogicalPlan =
    if (!isUnknown(table) || size(table) > Math.min(enough, threshold)) table
    else ResolvedHint(table, HintInfo(strategy = Some(BROADCAST)))

  private def size(table: LogicalPlan): Long = sizes.of(table) {
    val plan = SparkPlans.executedPlan(planning, table)
    TableSizes.measured(plan.execute(), plan.output, enough)
  }

  /** Spark takes it for large, but not because a file or another source of it is known to be so. */
  private def isUnknown(table: LogicalPlan): Boolean =
    // Mostly this is all that there is to know, and cheap.
    table.stats.sizeInBytes > threshold && {
      val optimized = SparkPlans.optimized(planning, table)
      optimized.stats.sizeInBytes > threshold && optimized.collectLeaves().forall { leaf =>
        val bytes = leaf.stats.sizeInBytes
        bytes <= threshold || bytes >= planning.sessionState.conf.defaultSizeInBytes
      }
    }

  private def isHinted(join: Join): Boolean =
    join.hint.leftHint.orElse(join.hint.rightHint).exists(_.strategy.isDefined) ||
      Seq(join.left, join.right).exists(_.exists {
        case ResolvedHint(_, info) => info.strategy.isDefined
        case _ => false
      })

  private def readsArgument(plan: LogicalPlan): Boolean = plan.exists {
    case leaf: RecursionArgument => leaf.id == argument
    case _ => false
  }
}
