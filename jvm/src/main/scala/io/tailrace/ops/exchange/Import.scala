package io.tailrace.ops.exchange

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{col, lit, unix_micros}
import org.apache.spark.sql.tailrace.SparkPlans.nullable
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types.{StructType, TimestampType}
import org.json4s.jackson.JsonMethods.parseOpt

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.WatermarkRules.{behind, ofMillis}
import io.tailrace.common.{LiteralPath, Side, TailraceConf}
import io.tailrace.join.{ColumnTexts, ImportableJoin, JoinCheckpoint, JoinNode, KeptColumns, LabelSettings}
import io.tailrace.ops.inspect.StateColumns
import io.tailrace.plan.{TableColumns, TailraceNode}

/** Rows that a query's join begins with.
  *
  * @param offsets     the end of each source's read rows: Spark's JSON of it, in the order of the query, "-"
  *                    for a source that begins by its options. None: all begin by their options
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
    throw ExchangeErrors.unsupported(Seq("salted keys"))
  // Right rows that the left rows of another query have matched would be emitted.
  if (join.pinned(join.columns).initial.contains(JoinCheckpoint.Orphans))
    throw ExchangeErrors.unsupported(Seq("orphans"))
  // The micro-batch would find these errors, too; here nothing has been written yet.
  private val stateful = query.collect { case node if Import.keepsState(node) => s"Spark's ${node.nodeName}" }
  if (stateful.nonEmpty) throw ExchangeErrors.unsupported(stateful)

  def run(options: ImportOptions): ImportReport = {
    import options.{offsets, batch, dryRun}
    val bootstrap = new Bootstrap(session, checkpoint, Map.empty)
    val count = sources.distinct.size
    if (offsets.nonEmpty && offsets.size != count)
      throw ExchangeErrors.rows(s"there are ${offsets.size} offsets, and the query has $count sources")
    // Spark's log has a line for each.
    offsets.find(of => of != SparkCheckpoint.Unread && (of.contains('\n') || parseOpt(of).isEmpty)).foreach {
      offset =>
        throw ExchangeErrors.rows(s"the offset $offset isn't JSON in one line")
    }
    val beginning = Beginning(
      batch,
      if (offsets.isEmpty) Seq.fill(count)(SparkCheckpoint.Unread) else offsets,
      options.watermarkMs,
      options.lateWatermarkMs.getOrElse(options.watermarkMs),
      sources = options.sources
    )
    bootstrap.check(beginning)
    val asGiven = options.exported.fold(ImportedRows(options.left, options.right))(_.of(join, options))
    val asJoined = asGiven.copy(
      left = rows(Side.Left, asGiven.left, join.left.output),
      right = rows(Side.Right, asGiven.right, join.right.output, asGiven.behind),
      emitted = asGiven.emitted.map(rows(Side.Left, _, join.left.output))
    )
    bootstrap.run(asJoined, join.leftTime.name, beginning, dryRun)((_, _) => query)
  }

  /** The columns of the side, selected from the rows by name.
    *
    * @param also an additional column of the table
    */
  private def rows(
      side: Side,
      table: DataFrame,
      wanted: Seq[Attribute],
      also: Option[String] = None
  ): DataFrame = {
    val columns = new TableColumns(table, session.sessionState.conf.resolver)
    val missing = columns.lacking(wanted)
    if (missing.nonEmpty) throw ExchangeErrors.columns(side.name, missing)
    columns.select(wanted, also)
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

/** Makes a checkpoint of an export, whose rows may have been edited, for the exported query. */
private[tailrace] final class ImportOfExport(session: SparkSession, checkpoint: String, directory: String) {
  private val root = LiteralPath.of(directory)
  private val conf = session.sessionState.newHadoopConf()
  private val report = ExportFile.read(root, conf)
  private val others = report.others ++
    report.operators
      .filter(_.name != JoinCheckpoint.LabelJoin)
      .map(join => s"operator ${join.operator} (${join.name})")
  if (others.nonEmpty || report.operators.size != 1) throw ExchangeErrors.unsupported(others)
  private val exported = report.operators.head
  import exported.settings
  if (settings.contains(JoinCheckpoint.Salted)) throw ExchangeErrors.unsupported(Seq("salted keys"))
  // Their offsets have the names before them, in an order of their own.
  if (report.offsets.exists(of => of != SparkCheckpoint.Unread && parseOpt(of).isEmpty))
    throw ExchangeErrors.unsupported(Seq("sources with names"))
  new ExportedFiles(root, conf).check(report)

  private def named(setting: String): StructType = ColumnTexts.read(settings(setting)).get
  private def rows: ExportedRows = new ExportedRows(session, root, report)

  /** @param join of streams of the left and the right rows: of options, by the names of Python's arguments */
  def run(
      dryRun: Boolean,
      join: (DataFrame, DataFrame, Seq[(String, String)], ExportedJoin) => DataFrame
  ): ImportReport = {
    // Impressions that a user adds would lack their row among the events, which the query's operator makes.
    val attributed = settings.toSeq.sorted.collect {
      case (name, text)
          if name.startsWith(JoinCheckpoint.OfExamples) && LabelSettings.parts(text)._2.nonEmpty =>
        s"label '${name.stripPrefix(JoinCheckpoint.OfExamples)}' with an attribution"
    }
    if (attributed.nonEmpty) throw ExchangeErrors.queryNeeded(directory, attributed)
    val columns = StateColumns.of(JoinCheckpoint(0, settings), directory)
    val on = named(JoinCheckpoint.LeftKeys).map(_.name).zip(named(JoinCheckpoint.RightKeys).map(_.name))
    val bootstrap = new Bootstrap(
      session,
      checkpoint,
      Map(
        "spark.sql.shuffle.partitions" -> report.partitions.toString,
        "spark.sql.streaming.stateStore.checkpointFormatVersion" -> report.format.toString
      ) ++ settings
        .get(TailraceConf.JoinStrategy.key)
        .filter(_ => settings(JoinCheckpoint.How) == "left")
        .map {
          TailraceConf.JoinStrategy.key -> _
        }
    )
    val beginning = Beginning(
      report.batch,
      report.offsets,
      report.watermarkMs,
      report.lateWatermarkMs,
      Some(report.entry),
      Some(SourceLogs.in(root)),
      Some(settings)
    )
    bootstrap.check(beginning)
    val all = rows.ofSameQuery(columns.left, named(JoinCheckpoint.RightColumns))
    bootstrap.run(all, settings(JoinCheckpoint.LeftTime), beginning, dryRun) { (left, right) =>
      SparkPlans.analyzed(join(left, right, on, exported))
    }
  }

  /** The rows for a query that may have other settings, which begins where that of the export ended. */
  def options(offsets: Seq[String], watermarkMs: Option[Long], batch: Option[Long]): ImportOptions =
    ImportOptions(
      rows.left,
      rows.right,
      if (offsets.isEmpty) report.offsets else offsets,
      watermarkMs.getOrElse(report.watermarkMs),
      batch.getOrElse(report.batch),
      sources = Option.when(offsets.isEmpty)(SourceLogs.in(root)),
      lateWatermarkMs = Some(watermarkMs.getOrElse(report.lateWatermarkMs)),
      exported = Some(rows)
    )
}

/** The tables of an export, and the facts in its state besides them. */
final class ExportedRows private[exchange] (session: SparkSession, root: Path, report: ExportReport) {
  private val exported = report.operators.head
  private val directory = root.toString
  import exported.{settings, state}

  state.filter(_.missed > 0).foreach { of =>
    throw ExchangeErrors.unfit(
      directory,
      s"${of.missed} late right rows weren't matched with left rows of their window, and an import would match them"
    )
  }

  private def files(table: String): DataFrame =
    ReadRows.files(session, new Path(root, s"${exported.directory}/$table"))

  private def read(table: String, schema: StructType): DataFrame = {
    val found = files(table)
    // Parquet files declare no column as never null.
    val missing = schema.filterNot(column =>
      found.schema.exists(f => f.name == column.name && nullable(f.dataType) == nullable(column.dataType))
    )
    if (missing.nonEmpty)
      throw ExchangeErrors.columns(table, missing.map(column => s"${column.name} ${column.dataType.sql}"))
    found.select(schema.map(column => found.col(quoteIdentifier(column.name))): _*)
  }

  private[exchange] def left: DataFrame = files("left")

  private[exchange] def right: DataFrame =
    rightOf(ColumnTexts.read(settings(JoinCheckpoint.RightColumns)).get)

  /** Right rows, including those of which eager matching keeps only the matches: it finds them again. */
  private def rightOf(schema: StructType): DataFrame = {
    val waiting = read("right", schema)
    if (!exported.rows.contains("matches")) waiting
    else {
      val gone = files("matches").where("NOT right_in_state").dropDuplicates("partition", "right_seq")
      waiting.unionByName(
        gone.select(schema.map(column => col("right").getField(column.name).as(column.name)): _*)
      )
    }
  }

  /** The rows for the query that was exported. */
  private[exchange] def ofSameQuery(leftColumns: StructType, rightColumns: StructType): ImportedRows =
    carried(read("left", leftColumns), rightColumns, amends = state.exists(_.amendsAfter.nonEmpty))

  private def carried(left: DataFrame, rightColumns: StructType, amends: Boolean): ImportedRows = {
    if (state.isEmpty && settings.contains(JoinCheckpoint.Horizons))
      throw ExchangeErrors.unfit(
        directory,
        "it is of an earlier release, which doesn't say what versions were emitted"
      )
    val column = state.flatMap(_.behind)
    val right = rightOf(column.fold(rightColumns)(rightColumns.add(_, TimestampType)))
    val isDecided = settings.contains(JoinCheckpoint.Release)
    ImportedRows(
      if (settings.contains(JoinCheckpoint.OneToOne)) openLefts(left) else left,
      right,
      Option.when(amends && exported.rows.contains("emitted"))(files("emitted")),
      column,
      state.map { of =>
        // If groups are decided early, right rows up to there have been evicted, and none of them is in the tables.
        CarriedState(
          of.expiredThrough,
          Option.when(!isDecided)(of.operatorTime),
          of.amendsAfter.filter(_ => amends),
          of.balance
        )
      }
    )
  }

  /** Rows whose window has closed may still be in the state, and get no matches. */
  private def openLefts(left: DataFrame): DataFrame = {
    val after = JoinCheckpoint.duration(settings, JoinCheckpoint.After).get
    val closed = behind(ofMillis(Some(report.lateWatermarkMs)), after)
    left.where(unix_micros(col(quoteIdentifier(settings(JoinCheckpoint.LeftTime)))) > lit(closed))
  }

  /** The rows for a query that may have other settings. */
  private[exchange] def of(join: ImportableJoin, options: ImportOptions): ImportedRows = {
    val now = join.pinned(join.columns.withKeysAsIn(settings)).own
    def changed(names: Seq[String]) = names.filter(name => settings.get(name) != now.get(name))
    val others = changed(ExportedRows.Meaning)
    val rightColumns = ColumnTexts.read(settings(JoinCheckpoint.RightColumns)).get
    if (others.isEmpty) {
      if (state.isEmpty && join.amends)
        throw ExchangeErrors.unfit(
          directory,
          "it is of an earlier release, which doesn't say which rows may be amended"
        )
      val missing = join.keptColumns.toSeq.flatMap(KeptColumns.missing(settings, _)).sorted
      if (missing.nonEmpty && exported.rows.get("emitted").exists(_ > 0))
        throw ExchangeErrors.unfit(
          directory,
          s"left rows that were emitted may be amended, and it has no ${missing.mkString(", ")} of them"
        )
      carried(options.left, rightColumns, join.amends)
    } else {
      val isOther = s"the query has another ${others.mkString(", ")}"
      if (settings.contains(JoinCheckpoint.Horizons) && now.contains(JoinCheckpoint.Horizons))
        throw ExchangeErrors.unfit(directory, s"versions of its left rows were emitted, and $isOther")
      if (join.amends && exported.rows.get("emitted").exists(_ > 0))
        throw ExchangeErrors.unfit(directory, s"left rows that were emitted may be amended, and $isOther")
      if (others == Seq(TailraceConf.JoinStrategy.key) && state.exists(_.behind.nonEmpty))
        throw ExchangeErrors.unfit(directory, s"some of its right rows came late, and $isOther")
      ImportedRows(options.left, options.right)
    }
  }
}

private[exchange] object ExportedRows {

  /** Settings that determine the meaning of rows in the state. With others, rows are treated as those of tables. */
  private val Meaning: Seq[String] = {
    import JoinCheckpoint._
    Seq(
      LeftKeys,
      RightKeys,
      LeftTime,
      RightTime,
      How,
      TailraceConf.JoinStrategy.key,
      Before,
      After,
      Horizons
    ) ++
      Seq(OneToOne, Release)
  }
}
