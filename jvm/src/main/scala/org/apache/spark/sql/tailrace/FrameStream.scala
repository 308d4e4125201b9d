package org.apache.spark.sql.tailrace

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.{Alias, KnownNullable}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.connector.read.streaming.{
  Offset => ConnectorOffset,
  ReadLimit,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.execution.streaming.runtime.StreamingExecutionRelation
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.types.StructType

/** The parts of a batch DataFrame that is read as a stream: a micro-batch reads one of them. */
trait FrameParts {

  /** Those of [[rows]], of which more may be nullable. */
  def columns: StructType

  /** The offset after the next part. At the end it is the same one.
    *
    * @param offset up to which the stream has been read; none: at its beginning
    */
  def next(offset: Option[String]): String

  /** The offset after the last part. */
  def end: String

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

  /** So what counts idle time knows that the source has unread rows. */
  override def reportLatestOffset(): ConnectorOffset = FrameStream.At(parts.end)

  override def getOffset: Option[Offset] =
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is the one to call")

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
    val rows = parts.rows(start.map(_.json), end.json)
    // The plan's own leaves are those of a batch, which Spark refuses in a micro-batch.
    val planned = SparkPlans.execution(rows).toRdd
    val session = SparkPlans.session(rows)
    val part = session.internalCreateDataFrame(planned, parts.columns, isStreaming = true)
    SparkPlans.toFrame(session, FrameStream.keepingNullable(part.queryExecution.analyzed))
  }

  override def stop(): Unit = ()
  override def toString: String = "a backfill"
}

object FrameStream {

  /** @return a relation that a streaming query may read */
  def of(session: SparkSession, parts: FrameParts): LogicalPlan =
    StreamingExecutionRelation(new FrameStream(parts), session)

  /** True if a node of a plan is such a relation. */
  def isIn(node: LogicalPlan): Boolean = node match {
    case relation: StreamingExecutionRelation => relation.source.isInstanceOf[FrameStream]
    case _ => false
  }

  /** A query's filters, `key IS NOT NULL` of a join for instance, otherwise make columns NOT NULL in the schema of its
    * state, if nothing is between them and the rows. Above files there is a projection.
    */
  private def keepingNullable(rows: LogicalPlan): LogicalPlan = Project(
    rows.output.map {
      case column if column.nullable => Alias(KnownNullable(column), column.name)()
      case column => column
    },
    rows
  )

  /** Columns in which null is where either of two has it. */
  def nullableAsEither(columns: StructType, others: StructType): StructType = StructType(columns.map { one =>
    others.find(_.name == one.name).fold(one) { other =>
      one.copy(
        dataType = StructType.unionLikeMerge(one.dataType, other.dataType),
        nullable = one.nullable || other.nullable
      )
    }
  })

  private final case class At(json: String) extends Offset
}
