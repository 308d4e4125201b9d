package io.tailrace.exchange

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.tailrace.SparkPlans.nullable
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{Column, DataFrame}
import org.json4s.jackson.JsonMethods.parseOpt

import io.tailrace.common.TailraceConf
import io.tailrace.inspect.StateColumns
import io.tailrace.join.{ColumnTexts, JoinCheckpoint, JoinNode}
import io.tailrace.plan.TailraceNode

/** What an import has made.
  *
  * @param batch that the query goes on behind
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
  */
final case class ImportOptions(
    left: DataFrame,
    right: DataFrame,
    offsets: Seq[String] = Nil,
    watermarkMs: Long = 0,
    batch: Long = 0,
    dryRun: Boolean = false,
    sources: Option[Path] = None
)

/** Makes a checkpoint of a query that has never run, so that its join goes on as if it had read some rows.
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
    case Seq(only) if only.operator == "tailrace.join" && others.isEmpty => only
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
    import options.{left, right, offsets, batch, dryRun}
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
      sources = options.sources
    )
    bootstrap.check(beginning)
    val leftRows = rows("left", left, join.left.output)
    val rightRows = rows("right", right, join.right.output)
    bootstrap.run(leftRows, rightRows, join.leftTime.name, beginning, dryRun) { (leftStream, rightStream) =>
      val inputs = Seq(input(leftStream, join.left.output), input(rightStream, join.right.output))
      val replaced = query.transformUp { case node: JoinNode => node.ofState.withNewChildren(inputs) }
      SparkPlans.toFrame(bootstrap.session, replaced)
    }
  }

  /** The columns that the side has, of the rows, by name. */
  private def rows(side: String, table: DataFrame, wanted: Seq[Attribute]): DataFrame = {
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
    }: _*)
  }

  /** A stream in the place of the join's input, with the same columns. */
  private def input(stream: DataFrame, of: Seq[Attribute]): LogicalPlan = {
    val plan = SparkPlans.analyzed(stream)
    Project(
      of.zip(plan.output).map { case (column, read) =>
        Alias(read, column.name)(exprId = column.exprId, explicitMetadata = Some(column.metadata))
      },
      plan
    )
  }
}

private object Import {

  /** Whether Spark keeps state for an operator of a streaming query. */
  private def keepsState(node: LogicalPlan): Boolean = node.isStreaming && (node match {
    case _: Aggregate | _: Distinct | _: Deduplicate | _: DeduplicateWithinWatermark | _: GlobalLimit => true
    case _: FlatMapGroupsWithState | _: TransformWithState | _: FlatMapGroupsInPandasWithState => true
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _ => false
  })
}

/** Makes a checkpoint of an export, whose rows may have been edited, for the query that it is of. */
private[tailrace] final class ImportOfExport(session: SparkSession, checkpoint: String, directory: String) {
  private val root = new Path(directory)
  private val report = ExportFile.read(root, session.sessionState.newHadoopConf())
  private val others = report.others ++
    report.operators
      .filter(_.name != JoinCheckpoint.LabelJoin)
      .map(join => s"operator ${join.operator} (${join.name})")
  if (others.nonEmpty || report.operators.size != 1) throw ExchangeErrors.unsupported(others)
  private val exported = report.operators.head
  import exported.settings
  if (settings.contains("hot")) throw ExchangeErrors.unsupported(Seq("hot keys"))

  /** @param join of streams of the left and the right rows: of options, by the names of Python's arguments */
  def run(
      dryRun: Boolean,
      join: (DataFrame, DataFrame, Seq[(String, String)], Map[String, String]) => DataFrame
  ): ImportReport = {
    val columns = StateColumns.of(JoinCheckpoint(0, settings), directory)
    def named(setting: String): StructType = ColumnTexts.read(settings(setting)).get
    val on = named(JoinCheckpoint.LeftKeys).map(_.name).zip(named(JoinCheckpoint.RightKeys).map(_.name))
    val bootstrap = new Bootstrap(
      session,
      checkpoint,
      Map(
        "spark.sql.shuffle.partitions" -> report.partitions.toString,
        "spark.sql.streaming.stateStore.checkpointFormatVersion" -> report.format.toString
      ) ++ settings.get(TailraceConf.JoinStrategy.key).filter(_ => settings("how") == "left").map {
        TailraceConf.JoinStrategy.key -> _
      }
    )
    val beginning = Beginning(
      report.batch,
      report.offsets,
      report.watermarkMs,
      Some(report.entry),
      Some(SourceLogs.in(root))
    )
    bootstrap.check(beginning)
    val right = named(JoinCheckpoint.RightColumns)
    val leftRows = read("left", columns.left)
    val time = settings(JoinCheckpoint.LeftTime)
    bootstrap.run(leftRows, rightsOf(right), time, beginning, dryRun)(join(_, _, on, settings))
  }

  /** The rows for a query with other settings, which begins where that of the export ended. */
  def options(offsets: Seq[String], watermarkMs: Option[Long], batch: Option[Long]): ImportOptions =
    ImportOptions(
      session.read.parquet(new Path(root, s"${exported.directory}/left").toString),
      rightsOf(ColumnTexts.read(settings(JoinCheckpoint.RightColumns)).get),
      if (offsets.isEmpty) report.offsets else offsets,
      watermarkMs.getOrElse(report.watermarkMs),
      batch.getOrElse(report.batch),
      sources = Option.when(offsets.isEmpty)(SourceLogs.in(root))
    )

  private def read(table: String, schema: StructType): DataFrame = {
    val path = new Path(root, s"${exported.directory}/$table").toString
    val found = session.read.parquet(path)
    // Parquet files say of no part that it is never null.
    val missing = schema.filterNot(column =>
      found.schema.exists(f => f.name == column.name && nullable(f.dataType) == nullable(column.dataType))
    )
    if (missing.nonEmpty)
      throw ExchangeErrors.columns(table, missing.map(column => s"${column.name} ${column.dataType.sql}"))
    found.select(schema.map(column => found.col(quoteIdentifier(column.name))): _*)
  }

  /** Right rows, and those of which eager matching has kept the matches alone: it finds them again. */
  private def rightsOf(schema: StructType): DataFrame = {
    val waiting = read("right", schema)
    if (!exported.rows.contains("matches")) waiting
    else {
      val path = new Path(root, s"${exported.directory}/matches").toString
      val gone =
        session.read.parquet(path).where("NOT right_in_state").dropDuplicates("partition", "right_seq")
      waiting.unionByName(
        gone.select(schema.map(column => col("right").getField(column.name).as(column.name)): _*)
      )
    }
  }
}
