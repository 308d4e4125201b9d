package io.tailrace.recursion

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}

import io.tailrace.common.UnsafeRows

/** The measured sizes of op's tables, over all micro-batches of a recursion. It keeps those of tables that
  * can't change, such as rows in memory that `createDataFrame` has made a table of.
  */
private[tailrace] final class TableSizes {
  private val known = new ConcurrentHashMap[LogicalPlan, java.lang.Long]

  def of(table: LogicalPlan)(measure: => Long): Long =
    if (!table.collectLeaves().forall(TableSizes.isFixed) || !table.deterministic) measure
    else {
      val key = table.canonicalized
      val bytes = Option(known.get(key)).fold(measure)(_.longValue)
      known.put(key, bytes)
      bytes
    }
}

private[recursion] object TableSizes {
  private def isFixed(leaf: LogicalPlan): Boolean = leaf match {
    case _: LogicalRDD | _: LocalRelation | _: Range => true
    case _ => false
  }

  /** The bytes of a table's rows. Each task stops when it has counted more than `enough`. */
  def measured(rows: RDD[InternalRow], columns: Seq[Attribute], enough: Long): Long = {
    def bytesOf(part: Iterator[InternalRow]): Long = {
      val toUnsafe = new UnsafeRows(columns)
      var bytes = 0L
      while (bytes <= enough && part.hasNext) bytes += toUnsafe(part.next()).getSizeInBytes
      bytes
    }
    rows.sparkContext.runJob(rows, (_: TaskContext, part: Iterator[InternalRow]) => bytesOf(part)).sum
  }
}

/** Makes Spark broadcast small tables that op joins and whose size it doesn't know: those of
  * `createDataFrame`, of many sources, of functions in Python, and of joins, whose sides' sizes it
  * multiplies. Otherwise, each hop would need an exchange and a job.
  *
  * @param enough bytes up to which a table is small
  */
private[recursion] final class SmallTables(
    planning: SparkSession,
    rules: OpRules,
    enough: Long,
    sizes: TableSizes
) {
  private val threshold = planning.sessionState.conf.autoBroadcastJoinThreshold

  def hinted(plan: LogicalPlan): LogicalPlan =
    // Below zero the user wants no broadcast.
    if (threshold < 0) plan
    else
      plan.transformUp {
        case join: Join if !isHinted(join) =>
          (rules.usesArgument(join.left), rules.usesArgument(join.right)) match {
            case (true, false) => join.copy(right = broadcastIfSmall(join.right))
            case (false, true) => join.copy(left = broadcastIfSmall(join.left))
            case _ => join
          }
      }

  private def broadcastIfSmall(table: LogicalPlan): LogicalPlan =
    if (!isUnknown(table) || size(table) > Math.min(enough, threshold)) table
    else ResolvedHint(table, HintInfo(strategy = Some(BROADCAST)))

  private def size(table: LogicalPlan): Long = sizes.of(table) {
    val plan = SparkPlans.executedPlan(planning, table)
    TableSizes.measured(plan.execute(), plan.output, enough)
  }

  /** True if Spark takes a table for large without a source in it that is known to be large. */
  private def isUnknown(table: LogicalPlan): Boolean =
    // This is cheap, and mostly enough.
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
}
