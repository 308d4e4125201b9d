package io.tailrace.watermark

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.{OutputWatermark, StreamingBatch}
import org.apache.spark.sql.types.{BinaryType, StructType}

import io.tailrace.common.UnsafeRows
import io.tailrace.driver.SparkWatermark

/** Adds to each row the low watermark that its micro-batch was written under, the same for all rows of it.
  *
  * It is the one behind which no row of this batch or a later one is, unless its host lags: of operators with state those
  * rows still come out in the batch that the watermark had not let come out before. With a watermark server it isn't
  * further than the sinks of all queries of the application.
  *
  * @param sources the accurate watermarks below
  * @param streaming a batch frame has no watermark, and gets nulls
  */
final case class StampWatermarkExec(
    stamp: Attribute,
    sources: Seq[ProgressSettings],
    streaming: Boolean,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output :+ stamp
  override def producedAttributes: AttributeSet = AttributeSet(stamp)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    rows.mapPartitions(new StampPartition(child.output, if (streaming) stampNow else null))
  }

  private def stampNow: Array[Byte] = {
    val batch = StreamingBatch.current(session)
    val low = OutputWatermark
      .ofRows(child, batch.watermarkMs, batch.previousWatermarkMs)
      .fold(HostTable.Never)(SparkWatermark.after)
    val watermarks = sources.map(SourceWatermarks.of(session, _))
    val completeness = watermarks.map(_.completeness(batch.batchId))
    // Other queries may write the same topic: what they have not written yet isn't complete either.
    val global = watermarks.flatMap(_.globalLow(batch.batchId))
    WatermarkStamp.encode((low +: global).min, completeness.foldLeft(Completeness.Whole)(_ andThen _).units)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): StampWatermarkExec =
    copy(child = newChild)
}

/** One task. A function by inheritance: Spark need not look for closures in it.
  *
  * @param stamp null for none
  */
private[watermark] final class StampPartition(columns: Seq[Attribute], stamp: Array[Byte])
    extends (Iterator[InternalRow] => Iterator[InternalRow])
    with Serializable {

  override def apply(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val schema = new StructType().add("stamp", BinaryType)
    val toUnsafe = new UnsafeRows(columns)
    val joiner = GenerateUnsafeRowJoiner.create(DataTypeUtils.fromAttributes(columns), schema)
    val added = UnsafeProjection.create(schema)(InternalRow(stamp)).copy()
    rows.map(row => joiner.join(toUnsafe(row), added))
  }
}
