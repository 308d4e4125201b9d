package org.apache.spark.sql.tailrace

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.read.streaming.{
  Offset => ConnectorOffset,
  ReadLimit,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.execution.streaming.runtime.StreamingExecutionRelation
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.types.StructType

/** What a stream of the rows of a batch DataFrame consists of: a micro-batch reads one part. */
trait FrameParts {
  def columns: StructType

  /** The offset after the next part. At the end it is the same one.
    *
    * @param offset up to which the stream has been read; none: at its beginning
    */
  def next(offset: Option[String]): String

  /** The rows between two offsets, as a batch DataFrame. */
  def rows(from: Option[String], to: String): DataFrame
}

/** A source of version 1: only these may give a micro-batch any DataFrame, and so Spark's own readers of all tables
  * and files. It has no files of its own in the checkpoint.
  */
final class FrameStream private (parts: FrameParts) extends Source with SupportsTriggerAvailableNow {
  override def schema: StructType = parts.columns

  /** All parts are there from the beginning. */
  override def prepareForTriggerAvailableNow(): Unit = ()
  override def getDefaultReadLimit: ReadLimit = ReadLimit.allAvailable()

  override def latestOffset(start: ConnectorOffset, limit: ReadLimit): ConnectorOffset =
    FrameStream.At(parts.next(Option(start).map(_.json)))

  override def getOffset: Option[Offset] =
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is the one to call")

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
    val rows = parts.rows(start.map(_.json), end.json)
    // The plan's own leaves are those of a batch, which Spark refuses in a micro-batch.
    val planned = SparkPlans.execution(rows).toRdd
    SparkPlans.session(rows).internalCreateDataFrame(planned, rows.schema, isStreaming = true)
  }

  override def stop(): Unit = ()
  override def toString: String = "a backfill"
}

object FrameStream {

  /** @return a relation that a streaming query may read */
  def of(session: SparkSession, parts: FrameParts): LogicalPlan =
    StreamingExecutionRelation(new FrameStream(parts), session)

  private final case class At(json: String) extends Offset
}
