package io.tailrace.windows

import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, GenericRowWithSchema, NamedExpression}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.types._

/** Stands before the sink and lets all rows pass: one of Spark's nodes that collect metrics, so that what the sink has done
  * reaches the query's progress, which a sink of this kind has no other way to.
  *
  * @param columns the one with the start of a row's window
  * @param path    the folder
  */
final class LandWindowsExec(name: String, columns: Seq[NamedExpression], child: SparkPlan)(val path: String)
    extends CollectMetricsExec(name, columns, child) {
  override def nodeName: String = "LandWindows"
  override def output: Seq[Attribute] = child.output

  override def collectedMetrics: Row = {
    val n = LandingFolders.numbers(new Path(path))
    new GenericRowWithSchema(
      Array(n.rows, n.late, n.untimed, n.open, timestamp(n.through), timestamp(n.low)),
      LandWindowsExec.Schema
    )
  }

  private def timestamp(micros: Option[Long]) = micros.map(DateTimeUtils.toJavaTimestamp).orNull

  override def resetMetrics(): Unit = metrics.values.foreach(_.reset())
  override protected def doExecute(): RDD[InternalRow] = child.execute()

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(path)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[LandWindowsExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
  override protected def withNewChildInternal(newChild: SparkPlan): CollectMetricsExec =
    new LandWindowsExec(name, columns, newChild)(path)
}

object LandWindowsExec {

  /** In the query's progress. */
  val Name = "tailrace.windows"

  private val Schema = new StructType()
    .add("rows", LongType)
    .add("lateRows", LongType)
    .add("untimedRows", LongType)
    .add("openWindows", LongType)
    .add("closedThrough", TimestampType)
    .add("lowWatermark", TimestampType)
}
