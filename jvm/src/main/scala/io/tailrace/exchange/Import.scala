package io.tailrace.exchange

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.tailrace.SparkPlans.nullable
import org.apache.spark.sql.tailrace.SparkSession
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.{Column, DataFrame}
import org.json4s.jackson.JsonMethods.parseOpt

import io.tailrace.join.{ImportableJoin, JoinCheckpoint, JoinNode}
import io.tailrace.plan.TailraceNode

/** What an import has made.
  *
  * @param batch that the query continues behind
  * @param left  rows
  * @param right rows
  */
final case class ImportReport(checkpoint: String, batch: Long, left: Long, right: Long)

/** Rows that a query's join begins with.
  *
  * @param offsets     where each source of the query has been read to: Spark's JSON of it, in the order of the query, "-"
  *                    for a source that begins as it is set. None: all begin as they are set
  * @param watermarkMs of the first batch, in milliseconds
  * @param batch       the last one that the query's sink has; 0 for a new sink
  * @param dryRun      only checks and counts the rows
  * @param sources     the directory that offsets of sources of files are numbers in; none: there are no such offsets
  * @param lateWatermarkMs rows of the first batch are late by it; none: by `watermarkMs`
  * @param exported    the export that the rows are of; none: they are of tables
  */
final case class ImportOptions(
    left: DataFrame,
    right: DataFrame,
    offsets: Seq[String] = Nil,
    watermarkMs: Long = 0,
    batch: Long = 0,
    dryRun: Boolean = false,
    sources: Option[Path] = None,
    lateWatermarkMs: Option[Long] = None,
    exported: Option[ExportedRows] = None
)

/** Makes a checkpoint of a query that has never run, so that its join continues as if it had read some rows.
  *
  * @param query the streaming DataFrame that will be started, with a `tailrace.join` in it
  */
private[tailrace] final class Import(session: SparkSession, query: LogicalPlan, checkpoint: String) {
  private val joins = query.collect { case node: JoinNode => node }
  private val others = query.collect {
    case node: TailraceNode if !joins.contains(node) && !node.onlyLooks => node.operator
  }
  private val sources = query.collectLeaves().filter(_.isStreaming)
  private val join = joins match {
    case Seq(only: ImportableJoin) if others.isEmpty => only
    case _ =>
      throw ExchangeErrors.unsupported(
        (if (joins.isEmpty) Seq("no tailrace.join of streams") else joins.map(_.operator)) ++ others
      )
  }
  if (!sources.forall(source => join.collectLeaves().contains(source)))
    throw ExchangeErrors.unsupported(Seq("a stream that is no input of the join"))
  if (join.left.output.exists(_.name == JoinCheckpoint.Part))
    throw ExchangeErrors.unsupported(Seq("hot keys"))
  // The micro-batch would find them, too; nothing has been written yet here.
  private val stateful = query.collect { case node if Import.keepsState(node) => s"Spark's ${node.nodeName}" }
  if (stateful.nonEmpty) throw ExchangeErrors.unsupported(stateful)

  def run(options: ImportOptions): ImportReport = {
    import options.{offsets, batch, dryRun}
    val bootstrap = new Bootstrap(session, checkpoint, Map.empty)
    val count = sources.distinct.size
    if (offsets.nonEmpty && offsets.size != count)
      throw ExchangeErrors.rows(s"there are ${offsets.size} offsets, and the query has $count sources")
    // Spark's log has a line for each.
    offsets.find(of => of != "-" && (of.contains('\n') || parseOpt(of).isEmpty)).foreach { offset =>
      throw ExchangeErrors.rows(s"the offset $offset isn't JSON in one line")
    }
    val beginning = Beginning(
      batch,
      if (offsets.isEmpty) Seq.fill(count)("-") else offsets,
      options.watermarkMs,
      options.lateWatermarkMs.getOrElse(options.watermarkMs),
      sources = options.sources
    )
    bootstrap.check(beginning)
    val asGiven = options.exported.fold(ImportedRows(options.left, options.right))(_.of(join, options))
    val asJoined = asGiven.copy(
      left = rows("left", asGiven.left, join.left.output),
      right = rows("right", asGiven.right, join.right.output, asGiven.behind),
      emitted = asGiven.emitted.map(rows("left", _, join.left.output))
    )
    bootstrap.run(asJoined, join.leftTime.name, beginning, dryRun)((_, _) => query)
  }

  /** The columns that the side has, of the rows, by name.
    *
    * @param also one more column of the table
    */
  private def rows(
      side: String,
      table: DataFrame,
      wanted: Seq[Attribute],
      also: Option[String] = None
  ): DataFrame = {
    val same = session.sessionState.conf.resolver
    def found(column: Attribute): Option[(String, DataType)] =
      table.schema.find(field => same(field.name, column.name)).map(field => field.name -> field.dataType)
    // Tables say of few parts that they are never null.
    val missing =
      wanted.filterNot(column => found(column).exists(of => Cast.canUpCast(of._2, nullable(column.dataType))))
    if (missing.nonEmpty)
      throw ExchangeErrors.columns(side, missing.map(column => s"${column.name} ${column.dataType.sql}"))
    table.select(wanted.map { column =>
      val (name, _) = found(column).get
      table.col(quoteIdentifier(name)).cast(nullable(column.dataType)).as(column.name): Column
    } ++ also.map(name => table.col(quoteIdentifier(name))): _*)
  }
}

private object Import {

  /** True if Spark keeps state for an operator of a streaming query. */
  private def keepsState(node: LogicalPlan): Boolean = node.isStreaming && (node match {
    case _: Aggregate | _: Distinct | _: Deduplicate | _: DeduplicateWithinWatermark | _: GlobalLimit => true
    case _: FlatMapGroupsWithState | _: TransformWithState | _: FlatMapGroupsInPandasWithState => true
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _ => false
  })
}
