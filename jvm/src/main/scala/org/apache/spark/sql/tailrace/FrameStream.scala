package org.apache.spark.sql.tailrace

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Alias, And, Attribute, KnownNullable, SubqueryExpression}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical.{
  Filter,
  LeafNode,
  LogicalPlan,
  Project,
  Statistics,
  SubqueryAlias,
  View
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.connector.read.streaming.{
  Offset => ConnectorOffset,
  ReadLimit,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.execution.streaming.runtime.StreamingExecutionRelation
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
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
    val (plan, session) = (SparkPlans.analyzed(rows), SparkPlans.session(rows))
    // The plan's own leaves are those of a batch, which Spark refuses in a micro-batch.
    val part =
      if (FrameStream.isScan(plan)) ScannedPart(DataTypeUtils.toAttributes(parts.columns), plan)
      else
        SparkPlans.analyzed(
          session
            .internalCreateDataFrame(SparkPlans.execution(rows).toRdd, parts.columns, isStreaming = true)
        )
    SparkPlans.toFrame(session, FrameStream.keepingNullable(part))
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

  /** True if rows come from one scan, and each on its own. Other plans have exchanges, which the micro-batch's planner
    * would make otherwise than a batch's: it isn't adaptive.
    */
  private def isScan(plan: LogicalPlan): Boolean =
    !plan.expressions.exists(SubqueryExpression.hasSubquery) && (plan match {
      case Project(_, child) => isScan(child)
      case Filter(_, child) => isScan(child)
      case SubqueryAlias(_, child) => isScan(child)
      case view: View => isScan(view.child)
      case other => other.children.isEmpty
    })

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

/** The rows of a scan, which is planned with the query that reads them: so the scan reads the columns alone that the
  * query needs, with its filters, and its code is compiled into that of the query.
  *
  * {{{
  *   micro-batch   Exchange - Project(user, time) - ScannedPart      Exchange - Project(user, time)
  *   part                        Filter(time >= 1 Mar) - files   =>             Filter(time >= 1 Mar) - files
  * }}}
  *
  * @param scan a batch plan with the columns of the output
  */
private final case class ScannedPart(output: Seq[Attribute], scan: LogicalPlan)
    extends LeafNode
    with MultiInstanceRelation {
  override def isStreaming: Boolean = true
  override def computeStats(): Statistics = scan.stats
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def innerChildren: Seq[LogicalPlan] = Seq(scan)

  /** The scan under these names. */
  def renamed: LogicalPlan = Project(
    scan.output.zip(output).map { case (from, to) => Alias(from, to.name)(exprId = to.exprId) },
    scan
  )
}

/** Plans the parts of tables that are scanned. */
final class ScannedPartStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PhysicalOperation(columns, filters, part: ScannedPart) =>
      // Sources know no filter of a column that is marked as nullable. The projection above marks it.
      val plain = filters.map(_.transform { case KnownNullable(column) => column })
      val rows = plain.reduceOption(And).fold(part.renamed)(Filter(_, part.renamed))
      session.sessionState.executePlan(Project(columns, rows)).sparkPlan :: Nil
    case _ => Nil
  }
}

object ScannedPartStrategy extends (org.apache.spark.sql.SparkSession => SparkStrategy) {
  override def apply(session: org.apache.spark.sql.SparkSession): SparkStrategy =
    new ScannedPartStrategy(session.asInstanceOf[SparkSession])
}
