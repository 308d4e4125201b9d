package io.tailrace.label

import java.io.File

import org.apache.spark.TaskContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession, SparkState}

import io.tailrace.common.{TailraceConf, UnsafeRows}
import io.tailrace.state._

/** The size that rows of batch DataFrames would have in the state of a join of streams: they are written as a run, by the
  * code that writes runs, and the run is deleted.
  *
  * @param rows      with a key and a time: those that the state keeps
  * @param bytes     of them before compression, as in the join's metrics
  * @param fileBytes of their run
  */
final case class SampledState(rows: Long, bytes: Long, fileBytes: Long) {
  private def +(other: SampledState): SampledState =
    SampledState(rows + other.rows, bytes + other.bytes, fileBytes + other.fileBytes)
}

object SampledState {
  // Enough pages for the ratio of their compression.
  private val MostBytes = 32L << 20

  /** @param joined what `tailrace.join` gives over the two samples
    * @return of the left and of the right rows
    */
  def of(joined: DataFrame): (SampledState, SampledState) = {
    val session = SparkPlans.session(joined)
    val join = SparkPlans.analyzed(joined).collectFirst { case join: LabelJoin => join }.get
    val width = TailraceConf.BucketsPerWindow.read(SparkPlans.activeSetting)
    val bucket = join.settings.window.bucketWidth(width)
    val columns = join.columns
    val left = of(session, join.left, StoreKind.LeftTimeSorted, bucket) { () =>
      new SampledRows(columns.left, columns.leftTimeOrdinal, columns.leftKeyEncoder(), identity)
    }
    val right = of(session, join.right, StoreKind.RightKeySorted, bucket) { () =>
      val payload = columns.payloadProjection()
      new SampledRows(columns.right, columns.rightTimeOrdinal, columns.rightKeyEncoder(), payload(_))
    }
    (left, right)
  }

  private def of(session: SparkSession, plan: LogicalPlan, kind: StoreKind, bucketWidth: Long)(
      rows: () => SampledRows
  ): SampledState =
    SparkPlans
      .execution(SparkPlans.toFrame(session, plan))
      .toRdd
      .mapPartitions { partition =>
        val buffer = new RowBuffer(new RowMemory(SparkState.taskMemoryManager(TaskContext.get())))
        try {
          rows().read(partition, buffer, MostBytes)
          Iterator(written(buffer, kind, bucketWidth))
        } finally buffer.close()
      }
      .fold(SampledState(0, 0, 0))(_ + _)

  private def written(rows: RowBuffer, kind: StoreKind, bucketWidth: Long): SampledState =
    if (rows.isEmpty) SampledState(0, 0, 0)
    else {
      val directory = SparkState.localDirectory("tailrace-sample")
      val file = new File(directory, "sample.run")
      try {
        val writer = new RunWriter(file)
        try {
          SortedRows.all(kind, rows, bucketWidth).writeTo(writer)
          writer.finish()
          SampledState(rows.size.toLong, writer.sections.map(_.bytes).sum, file.length)
        } finally writer.close()
      } finally {
        file.delete()
        directory.delete()
        ()
      }
    }
}

/** The rows of one side, as the state has them. @param value of a row */
private final class SampledRows(
    attributes: Seq[Attribute],
    timeOrdinal: Int,
    keys: KeyEncoder,
    value: UnsafeRow => UnsafeRow
) {
  private val unsafe = new UnsafeRows(attributes)

  def read(rows: Iterator[InternalRow], to: RowBuffer, most: Long): Unit =
    while (rows.hasNext && to.bytes < most) {
      val row = unsafe(rows.next())
      val keyLength = keys.encode(row)
      if (keyLength > 0 && !row.isNullAt(timeOrdinal))
        to.append(keys.bytes, keyLength, row.getLong(timeOrdinal), to.size.toLong, value(row))
    }
}
