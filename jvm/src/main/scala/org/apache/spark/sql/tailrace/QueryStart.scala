package org.apache.spark.sql.tailrace

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.streaming.{ContinuousTrigger, RealTimeTrigger}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.OutputMode

/** A streaming query that is being started, as its writer describes it. */
final class QueryStart private (statement: WriteToStreamStatement) {

  /** The query, without its sink. */
  def plan: LogicalPlan = statement.inputQuery

  def outputMode: String = statement.outputMode.toString
  def appends: Boolean = statement.outputMode == OutputMode.Append

  def isRealTime: Boolean = statement.trigger.isInstanceOf[RealTimeTrigger]
  def isContinuous: Boolean = statement.trigger.isInstanceOf[ContinuousTrigger]

  /** True if Spark makes micro-batches without new data, where operators ask for them. */
  def runsWithoutData: Boolean = SQLConf.get.streamingNoDataMicroBatchesEnabled

  /** True if each stateful operator has a watermark of its own: `spark.sql.streaming.statefulOperator.allowMultiple`. */
  def hasWatermarkPerOperator: Boolean = SQLConf.get.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE)

  def sink: Table = statement.sink

  /** The sink's name in an error. A [[Sink]] has none. */
  def sinkName: String = sink match {
    case old: Sink => old.toString
    case table => table.name
  }

  def hadoopConf: Configuration = statement.hadoopConf

  /** The directory of the checkpoint, for checks that read what an earlier start has left there.
    *
    * @return none for a query without a checkpoint that stays
    */
  def checkpoint: Option[Path] = {
    val roots = SQLConf.get.checkpointLocation
    def ofSession = roots.zip(statement.userSpecifiedName).map { case (root, name) => new Path(root, name) }
    val path = statement.userSpecifiedCheckpointLocation.map(new Path(_)).orElse(ofSession)
    path.map(p => p.getFileSystem(hadoopConf).makeQualified(p))
  }

  /** True if `spark.sql.streaming.multipleWatermarkPolicy` makes the query follow the latest watermark. */
  def followsLatestWatermark: Boolean =
    SQLConf.get.getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY).equalsIgnoreCase("max")
}

object QueryStart {
  def unapply(plan: LogicalPlan): Option[QueryStart] = plan match {
    case statement: WriteToStreamStatement => Some(new QueryStart(statement))
    case _ => None
  }
}
