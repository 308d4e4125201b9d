package io.tailrace.windows

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.{QueryExecution, SparkPlan, SparkStrategy}
import org.apache.spark.sql.sources.{DataSourceRegister, StreamSinkProvider}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row, SQLContext}

import io.tailrace.common.{LiteralPath, OwnNames}
import io.tailrace.driver.{ReportExec, ReportingSink}
import io.tailrace.plan.{Columns, TailraceNode, WriteCheck}
import io.tailrace.tables.TableWriter
import io.tailrace.watermark._

/** The format of `tailrace.write_windows`. It makes the sink. */
final class WindowSinkProvider extends StreamSinkProvider with DataSourceRegister {
  override def shortName(): String = WindowSink.Format

  override def createSink(
      context: SQLContext,
      parameters: Map[String, String],
      partitionColumns: Seq[String],
      outputMode: OutputMode
  ): Sink = {
    val named = parameters.getOrElse(WindowSink.Folder, throw WindowSink.usedByItself)
    if (outputMode != OutputMode.Append)
      throw WindowOptions.arguments.invalid("outputMode", outputMode.toString, "append")
    val session = context.sparkSession.asInstanceOf[SparkSession]
    val hadoopConf = session.sessionState.newHadoopConf()
    val folder = LiteralPath.qualified(named, hadoopConf)
    parameters
      .get("path")
      .filter(LiteralPath.qualified(_, hadoopConf) != folder)
      .foreach(path => throw WindowErrors.sink(folder.toString, path))
    new WindowSink(session, partitionColumns, parameters - WindowSink.Folder)
  }
}

/** The sink of `tailrace.write_windows`. Spark gives a sink nothing but strings, and shows them in its plans
  * and pages, where a server's token has no place: the settings come from the query's own node,
  * [[LandWindows]], when the query is started.
  *
  * @param partitionColumns inside each window's directory, if the user wants some
  * @param options          of Parquet
  */
final class WindowSink(session: SparkSession, partitionColumns: Seq[String], options: Map[String, String])
    extends Sink
    with ReportingSink {
  private var landing = Option.empty[Landing]

  /** Opens the folder, once. */
  def open(node: LandWindows): Unit =
    if (landing.isEmpty) landing = Some(new Landing(session, this, node, partitionColumns, options))

  override def reports: Boolean = landing.exists(_.reports)
  override def addBatch(batchId: Long, data: DataFrame): Unit = opened.addBatch(batchId, data)

  /** The numbers of the last batch. */
  def report: LandingReport = opened.report

  private def opened: Landing = landing.getOrElse(throw WindowSink.usedByItself)
  override def toString: String = s"WindowSink${landing.fold("")(l => s"[${l.path}]")}"
}

object WindowSink {

  /** The option with the path of the folder, which only `write_windows` sets. */
  val Folder = "tailrace.windows"

  val Format = "tailrace-windows"

  private val Alone = "left to write_windows: start the writer that it returns"

  private[windows] def usedByItself: Throwable =
    WindowOptions.arguments.invalid("format", Format, Alone)
}

/** The numbers of the last batch, for the query's progress. Times are microseconds.
  *
  * @param rows    the number of rows, with late rows and rows without an event time
  * @param open    the number of open windows that have rows
  * @param through all windows that end at this time or before are closed
  * @param low     the low watermark that closes windows
  */
final case class LandingReport(
    rows: Long = 0,
    late: Long = 0,
    untimed: Long = 0,
    open: Long = 0,
    through: Option[Long] = None,
    low: Option[Long] = None
) {
  def row: Row = new GenericRowWithSchema(
    Array(rows, late, untimed, open, timestamp(through), timestamp(low)),
    LandingReport.Schema
  )

  private def timestamp(micros: Option[Long]) = micros.map(DateTimeUtils.toJavaTimestamp).orNull
}

object LandingReport {

  /** The name in the query's progress. */
  val Name = "tailrace.windows"

  private[tailrace] val Schema = new StructType()
    .add("rows", LongType)
    .add("lateRows", LongType)
    .add("untimedRows", LongType)
    .add("openWindows", LongType)
    .add("closedThrough", TimestampType)
    .add("lowWatermark", TimestampType)
}

/** Lands the micro-batches of a query in a [[LandingFolder]].
  *
  * {{{
  *   addBatch(7):  write into staging  ->  land: publish  ->  how far are the sources?  ->  close
  * }}}
  *
  * Sources report to a watermark server only when they are asked for their low watermarks. So all rows before
  * a source's low watermark have landed.
  */
private[windows] final class Landing(
    session: SparkSession,
    sink: Sink,
    node: LandWindows,
    partitionColumns: Seq[String],
    options: Map[String, String]
) {
  private val settings = node.settings
  val path: Path = LiteralPath.of(settings.path)
  private val hadoopConf = session.sessionState.newHadoopConf()
  private val table = settings.table.map { named =>
    val writer = TableWriter.of(WindowOptions.arguments, options, partitionColumns)
    new LakeTable(session, settings, named, node.rows, writer)
  }
  private val folder = WrittenFolders.open(path, settings, hadoopConf, () => isActive, table)
  private val idle = settings.idleTimeoutMs.map { limit =>
    new IdleSink(limit, () => run.filterNot(_.endsByItself).flatMap(_.answeredMs))
  }
  private val closer = new WindowCloser(
    folder,
    settings,
    () => reporter,
    () => committed,
    () => clock,
    () => idle.exists(_.isTooLong)
  )
  // A table gathers the rows of a window when the window is complete.
  private val sizes = settings.fileBytes.filter(_ => table.isEmpty).map { size =>
    new FileSizes(session, size, keepsTogether = settings.clusters.isDefined)
  }
  if (reports || idle.isDefined)
    new ClosingThread(path, closer, () => isActive, ClosingThread.every(settings.idleTimeoutMs)).start()

  /** The numbers of the last batch. */
  @volatile var report: LandingReport = LandingReport()

  def reports: Boolean = settings.server.isDefined

  private def run: Option[StreamingRun] = StreamingRun.ofSink(session, sink)

  private def isActive: Boolean = run.isDefined

  private def reporter: Option[Reporter] = for {
    server <- settings.server
    run <- run
  } yield Reporter.of(session, run.queryId, run.runId, server.settings)

  private def clock: RunClock = run.fold[RunClock](RunClock.System)(_.clock)

  private def committed: Option[Long] =
    run.map(_.lastCommittedBatch.fold(0L)(_ + 1))

  def addBatch(batchId: Long, data: DataFrame): Unit = {
    val query = SparkPlans.execution(data)
    val batch = StreamingBatch.current(session)
    folder.begin(batch.queryId, batchId)
    closer.begin(batchId)
    val offsets = StreamingRun.current(session).offsets(batchId)
    val landed = folder.landed(batchId, offsets) match {
      case Some(known) =>
        // Its operators must run again.
        StreamingBatch.runThrough(session)
        known
      case None =>
        val staging = folder.newStaging(batchId)
        folder.land(batchId, offsets, staging, stage(query, staging, batchId))
    }
    idle.foreach { sink =>
      val hasRows = landed.rows > 0 || StreamInputs.all(session).hasNew
      sink.landed(batchId, StreamingRun.current(session).askedMs, hasRows)
    }
    val server = settings.server.map(_.settings)
    closer.afterBatch(landed, QueryProgress.after(session, query.executedPlan, batch.watermarkMs, server))
    report = reportOf(landed)
  }

  private def stage(query: QueryExecution, staging: Path, batchId: Long): Seq[StagedFile] = {
    val output = query.analyzed.output
    val inside = if (table.isEmpty) partitionColumns else Nil
    val directories = output.last +: inside.map(named(output, "partitionBy", _))
    // The files of a table's windows are written twice, so the second time is enough.
    val clusters = settings.clusters.filter(_ => table.isEmpty)
    def columns(names: Clusters => Seq[String]) =
      clusters.toSeq.flatMap(names).map(named(output, "cluster_by", _)).filterNot(directories.contains)
    def files(rows: SparkPlan) =
      write(rows, output, directories, columns(_.order), staging, batchId)
    val plan = query.executedPlan
    sizes.fold(files(plan))(_.write(plan, output, directories ++ columns(_.columns))(files))
  }

  private def write(
      rows: SparkPlan,
      output: Seq[Attribute],
      directories: Seq[Attribute],
      sortBy: Seq[Attribute],
      staging: Path,
      batchId: Long
  ): Seq[StagedFile] = {
    val committer = new StagedFiles(staging.toString, batchId)
    val counter = new RowsPerFile
    val ofFiles = if (table.isEmpty) options else Map.empty[String, String]
    new FileJob(session, rows, output, FileJob.parquet, ofFiles, hadoopConf)
      .write(staging, directories, sortBy, committer, counter)
    val counts = counter.rows.map { case (file, count) => file.stripPrefix(s"$staging/") -> count }
    committer.files.map { case (file, length) => staged(file, length, counts(file)) }
  }

  private def named(output: Seq[Attribute], argument: String, column: String): Attribute =
    new Columns(WindowOptions.arguments, output, session.sessionState.conf.resolver).find(argument, column)

  /** Spark has written the file into a directory that is named after the window's start. */
  private def staged(file: String, length: Long, rows: Long): StagedFile = {
    val (directory, inside) = file.splitAt(file.indexOf('/'))
    val value = directory.drop(directory.indexOf('=') + 1)
    val start = Option.when(value != ExternalCatalogUtils.DEFAULT_PARTITION_NAME)(value.toLong)
    StagedFile(file, start, inside.drop(1), length, rows)
  }

  private def reportOf(batch: BatchFile): LandingReport = {
    val windows = folder.state
    val open = windows.rows.size.toLong
    LandingReport(batch.rows, batch.lateRows, batch.untimed, open, windows.through, closer.closesAt)
  }
}

/** Files of about a target size, where each task would otherwise write a file of its own for each window.
  *
  * {{{
  *   200 tasks with rows of 12:00 and 13:00 ──> shuffle by window ──> 12:00 in 3 tasks, 13:00 in one
  *                                                                    4 files in place of 400
  * }}}
  *
  * Spark knows how many bytes a shuffle has, and not how many the files will have. Their ratio is that of the
  * last micro-batch.
  *
  * @param target        bytes of a file
  * @param keepsTogether whether rows with equal columns go to one file, however large it is. Then the shuffle has
  *                      as many parts as the last micro-batch's rows would fill, because none of them is split
  */
private[windows] final class FileSizes(session: SparkSession, target: Long, keepsTogether: Boolean) {
  private val gathered = new GatheredRows(session, keepsTogether)
  private var shuffledPerByte = FileSizes.Unknown
  private var lastShuffled = 0L

  /** @param output the plan's columns as the query names them
    * @param by     columns whose equal rows come to one task
    * @param write  writes the rows of a plan
    */
  def write(plan: SparkPlan, output: Seq[Attribute], by: Seq[Attribute])(
      write: SparkPlan => Seq[StagedFile]
  ): Seq[StagedFile] = {
    val bytes = Math.max((target * shuffledPerByte).toLong, 1)
    val parts = Option.when(keepsTogether)(FileSizes.PartsPerFile * (lastShuffled / bytes + 1))
    val (files, shuffled) = gathered.run(plan, output, by, bytes, parts)(write)
    lastShuffled = shuffled
    val written = files.map(_.length).sum
    if (shuffled > 0 && written > 0) shuffledPerByte = shuffled.toDouble / written
    files
  }
}

private object FileSizes {

  /** A guess for a query's first micro-batch: Parquet's columns compress better than rows. */
  private val Unknown = 2.0

  /** A few, because hashes fill the parts of a shuffle unevenly. Small ones are merged. */
  private val PartsPerFile = 4L
}

/** The logical node of `tailrace.write_windows`, below the sink.
  *
  * @param start the child's last column: the start of a row's window, in microseconds
  */
case class LandWindows(settings: LandingSettings, start: Attribute, child: LogicalPlan)
    extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.write_windows"
  override def onlyAppends: Boolean = true

  /** The columns of the files. */
  def rows: StructType = StructType(child.schema.dropRight(1))

  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): LandWindows = copy(child = newChild)
}

/** Opens the folder when the query starts. The node and the sink need each other: rows that another sink gets
  * land in no window, and the sink without the node has no settings.
  */
object LandWindowsCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    (start.plan.collectFirst { case lands: LandWindows => lands }, start.sink) match {
      case (Some(node), ours: WindowSink) => ours.open(node)
      case (Some(node), _) => throw WindowErrors.sink(node.settings.path, start.sinkName)
      case (None, _: WindowSink) => throw WindowSink.usedByItself
      case _ =>
    }
}

object LandWindowsStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case l: LandWindows =>
      ReportExec(LandingReport.Name, planLater(l.child)) { case node => report(node.session).row } :: Nil
    case _ => Nil
  }

  private def report(session: SparkSession): LandingReport = StreamingRun.current(session).sink match {
    case sink: WindowSink => sink.report
    case other => throw new IllegalStateException(s"windows are landed by another sink: $other")
  }
}

/** Checks that the windows of a DataFrame can be landed, and plans their landing.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class WindowsResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import WindowsResolution._

  private val columns = new Columns(WindowOptions.arguments, child.output, sameName)

  /** The DataFrame whose writer lands them: one of the format [[WindowSink.Format]]. */
  def landed(session: SparkSession, path: String, eventTime: String, options: WindowOptions): DataFrame = {
    if (!child.isStreaming) throw WindowErrors.batch()
    val landing = sources
    // Times without a zone have no watermark.
    columns.checkDistinct("frame")
    val time = checkWatermark(columns.find("event_time", eventTime, TimestampType))
    val cure = s"${Columns.rename(options.into)} The column of windows takes another name with `into`."
    columns.checkAdded(options.into, cure)
    if (path.trim.isEmpty) throw WindowOptions.arguments.invalid("path", "", "a folder")
    val folder = LiteralPath.qualified(path, session.sessionState.newHadoopConf())
    val joins = child.collect { case node: TailraceNode => node.idleTimeoutMs.map(node.operator -> _) }
    val ordered = options.clusterBy.map(clusters(_, time))
    val settings = options.settings(folder.toString, landing, ordered, joins.flatten)
    val number = WindowStart(time, settings.windows)
    val start = Alias(number, Start)()
    val column = settings.table.map(_ => Alias(MicrosToTimestamp(number), options.into)())
    val plan = LandWindows(settings, start.toAttribute, Project(child.output ++ column :+ start, child))
    SparkPlans.toFrame(session, plan)
  }

  private def clusters(names: Seq[String], time: Attribute): Clusters = {
    if (names.isEmpty) throw WindowOptions.arguments.invalid("cluster_by", "", "one column or more")
    val found = names.map(columns.find("cluster_by", _))
    found.find(column => !RowOrdering.isOrderable(column.dataType)).foreach { column =>
      throw columns.wrongType("cluster_by", column, "an orderable type")
    }
    Clusters(found.map(_.name).distinct, time.name)
  }

  /** Windows of an event time close by the watermark on that column. The watermark on another column says
    * nothing about them.
    */
  private def checkWatermark(time: Attribute): Attribute = {
    def hasWatermark(a: Attribute) = a.metadata.contains(EventTimeWatermark.delayKey)
    if (!hasWatermark(time))
      throw WindowErrors.watermarkMissing(time.name, child.output.find(hasWatermark).map(_.name))
    time
  }

  /** A DataFrame that is used twice is one source. */
  private def sources: Seq[ProgressSettings] = {
    val watermarks = StreamWatermarks.nodesIn(child)
    val accurate = child.collect { case p: HostProgress => p.nodeId -> p.settings }
    if (watermarks.isEmpty || watermarks != accurate.map(_._1).toSet) throw WindowErrors.source()
    accurate.map(_._2).distinctBy(_.name)
  }
}

private object WindowsResolution {

  /** The number of a row's window, by which Spark sorts rows into files. No file has this column. */
  private val Start = OwnNames.of("window")
}

/** The start of a timestamp's window, in microseconds. Null for null and for times without a window. */
case class WindowStart(child: Expression, windows: Windows) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def prettyName: String = "window_start"
  override def nullable: Boolean = true
  override def nullIntolerant: Boolean = true

  override protected def nullSafeEval(time: Any): Any = {
    val micros = time.asInstanceOf[Long]
    if (windows.lands(micros)) windows.start(micros) else null
  }

  override protected def doGenCode(context: CodegenContext, ev: ExprCode): ExprCode = {
    val of = context.addReferenceObj("windows", windows)
    val (start, isNull) = (ev.value, ev.isNull)
    nullSafeCodeGen(context, ev, t => s"if ($of.lands($t)) $start = $of.start($t); else $isNull = true;")
  }

  override protected def withNewChildInternal(newChild: Expression): WindowStart = copy(child = newChild)
}
