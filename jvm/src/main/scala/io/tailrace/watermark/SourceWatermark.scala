package io.tailrace.watermark

import java.sql.Timestamp

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.types._

import io.tailrace.common.{SparkWatermark, TailraceConf}
import io.tailrace.driver.{BatchSequence, RunState}
import io.tailrace.explain.SourceFacts

/** The low watermark of one source in one run of a query, on the driver.
  *
  * {{{
  *   12:00:00   collect(7) ── tasks of batch 7 ──> end(7): add hosts, report to the server, which answers 11:50;
  *              write 7.delta ── commit log 7
  *   12:00:01   the query has nothing to read; attend: the server still answers 11:50, for another query lags
  *   12:00:30   attend: the server answers 11:58 ── tryMove: Spark asks for end(7) again and gets 11:58
  *   12:00:30   an operator has something to close: collect(8) ── tasks of batch 8, without rows ──> end(8)
  * }}}
  *
  * Spark may ask for the end of a batch several times. It gets the same answer until the batch is committed;
  * then the low watermark moves only if neither a batch runs nor is being made ([[BetweenBatches]]). So a
  * batch begins with what Spark's offset log has, and ends with it.
  *
  * @param clock          of the run
  * @param newAccumulator makes an accumulator and registers it with Spark
  * @param send           sends the names of hosts to the executors
  * @param input          the input of the batch that ends, by the time when it was asked for
  * @param retain         how many batches the query must be able to go back
  * @param hasOperators   whether the batch that ends has operators that are reported to the server
  * @param operatorsAt    these operators between two batches, by the query's watermark
  * @param sparkLow       the low watermark by the watermark of the run's first batch in Spark, in microseconds;
  *                       [[SparkWatermark.Never]] if that says nothing about this source
  */
private[watermark] final class SourceWatermark(
    settings: ProgressSettings,
    log: ProgressLog,
    clock: RunClock,
    newAccumulator: Option[HostNumbers] => HostAccumulator,
    send: HostNumbers => Broadcast[HostNumbers],
    input: Long => BatchInput,
    retain: Int,
    server: Option[ServerClient],
    hasOperators: () => Boolean,
    operatorsAt: (Long, ServerSettings) => Seq[OperatorReport],
    between: Option[BetweenBatches],
    sparkLow: Long
) extends Logging {
  import SourceWatermark._

  // With a server, the server decides which hosts are idle: it knows hosts of other queries too.
  private val progress = new SourceProgress(
    settings.completeness,
    settings.roster,
    settings.idleAfterMs.filter(_ => server.isEmpty)
  )
  private val batches = new BatchSequence[Batch](begin)
  private var lastWritten: Option[Long] = None
  private var sent = Option.empty[(HostNumbers, Broadcast[HostNumbers])]
  private var lowBefore = SparkWatermark.Never
  private var upstream = Completeness.Whole
  private var lateRows = 0L

  // For the time between two batches.
  private var keepsRows = false
  private var furthest = SparkWatermark.Never
  private var answered = SparkWatermark.Never
  private var askedMs = clock.ms
  private var isMoved = false
  private var movedBatchMs = 0L

  /** The first batch of a run begins with the progress in the checkpoint. */
  private def begin(next: Long, before: Option[Batch]): Batch = {
    if (before.isEmpty) {
      log.load(next, progress.table).foreach { file =>
        progress.restore(file.low)
        lowBefore = file.lowBefore
        upstream = file.upstream
        progress.restoreFuture(file.forgottenFuture)
        lastWritten = Some(next - 1)
        file.roster.filter(_ != settings.rosterVersion).foreach(noteRoster)
      }
    }
    renumber()
    val batch = new Batch(isFirst = before.isEmpty, clock.ms)
    // Before the first row is emitted: the server refuses a query that reads the input of another one.
    server.filter(!_.isKnown).foreach { client =>
      client.report(progress.table, Array.empty, hasUnread = true, batches = Some(next)): Unit
    }
    batch
  }

  /** Sends the names of the hosts that are known, if there are many more than were sent. */
  private def renumber(): Unit = {
    val hosts = Math.min(progress.table.size, MostNumbered)
    if (hosts > sent.fold(FewHosts)(_._1.size) * 5 / 4) {
      val numbers = new HostNumbers(Array.tabulate(hosts)(progress.table.name))
      sent = Some(numbers -> send(numbers))
    }
  }

  private def noteRoster(before: String): Unit = logWarning(
    s"TAILRACE_WATERMARK_ROSTER_CHANGED: the watermark '${settings.name}' has another roster than before, " +
      s"${settings.roster.fold("none")(r => s"of ${r.size} hosts")}: version ${settings.rosterVersion}, " +
      s"and it was $before"
  )

  /** Makes an accumulator for the tasks of a batch. A DataFrame that is used twice in a query gets two for
    * each batch.
    */
  def collect(next: Long): HostAccumulator = synchronized {
    val batch = batches.at(next)
    val accumulator = newAccumulator(sent.map(_._1))
    batch.collected ::= accumulator
    accumulator
  }

  /** The hosts that the tasks of a batch send by number. */
  def numbers(next: Long): Option[Broadcast[HostNumbers]] = synchronized {
    batches.at(next): Unit
    sent.map(_._2)
  }

  def noteTasks(next: Long, tasks: Int): Unit = synchronized {
    if (tasks == 0) batches.at(next).hasNoTasks = true
  }

  /** True if a task of a batch has run, or the batch has none. A sink that takes only the first rows doesn't
    * run all tasks.
    */
  def hasRead(finished: Long): Boolean = synchronized {
    batches.of(finished).exists(batch => batch.hasNoTasks || batch.collected.exists(!_.isZero))
  }

  /** Rows with this time or before are late in the batch, in microseconds. It is the watermark that the batch
    * before began with.
    */
  def lateThrough(next: Long): Long = synchronized {
    batches.at(next): Unit
    if (lowBefore == SparkWatermark.Never) Long.MinValue
    else Math.max(SparkWatermark.before(lowBefore) - settings.delayMs, Long.MinValue / 1000) * 1000
  }

  /** Ends a batch. When this returns, the low watermark is in the checkpoint.
    *
    * @param operators the query's other operators, for the server
    * @return the low watermark in microseconds. [[SparkWatermark.Never]] while too few hosts have been seen
    */
  def end(finished: Long, operators: ServerSettings => Seq[OperatorReport]): Long = synchronized {
    batches.end(finished)(fold(finished, _, operators))
    progress.low
  }

  private def fold(finished: Long, batch: Batch, operators: ServerSettings => Seq[OperatorReport]): Unit = {
    val seen = SeenHosts.inBatch(batch.collected.map(_.value))
    lateRows = seen.late
    upstream = upstream.min(Completeness.ofUnits(seen.share))
    // A batch that runs again after a crash may have begun with a later one than the checkpoint has: the server
    // had moved it between two batches.
    val before = if (batch.isFirst) Math.max(progress.low, sparkLow) else progress.low
    val read = input(batch.askedMs)
    val advance = progress.advance(seen.table, read, moving = server.isEmpty)
    server.zip(settings.server).foreach { case (client, at) =>
      val input = Option.when(settings.isStamped)(progress.computed)
      val low =
        client.report(progress.table, advance.moved, input, operators(at), read.hasUnread, Some(finished + 1))
      low.foreach(progress.restore)
    }
    warn(advance)
    val forgotten = progress.forget(all = server.isDefined)
    forgotten.foreach(numbers => server.foreach(_.renumber(numbers)))
    val (roster, future) = (Some(settings.rosterVersion), progress.futureOfForgotten)
    val file = ProgressFile(-1, progress.low, before, upstream, roster, future)
    // A delta can't remove a host.
    val adding = if (forgotten.isDefined) None else lastWritten
    noteEnd(batch)
    log.write(finished, adding, file, progress.table, advance.moved, finished - retain)
    lastWritten = Some(finished)
    lowBefore = before
  }

  private def noteEnd(batch: Batch): Unit = if (server.isDefined) {
    askedMs = clock.ms
    movedBatchMs = if (isMoved) askedMs - batch.askedMs else 0
    isMoved = false
    furthest = progress.table.furthest
    keepsRows = hasOperators()
  }

  /** Keeps in step with the server while no batch runs: an idle query may have none for long. Sends again what
    * the server has missed or, in a store that was restored, forgotten. Asks whether the low watermark has moved,
    * and tells Spark if it has. If no operator closes anything by it, no batch follows that would report their
    * progress, so this method does. The reporter's thread calls it several times a second. While no server answers,
    * this and the ends of batches share the pauses between attempts, so a batch waits for at most one attempt of
    * this thread.
    */
  def attend(): Unit = if (synchronized(ask())) between.foreach { between =>
    if (synchronized(answered > progress.low)) between.tryMove(move())
    between.ifSettled(settle)
  }

  private def move(): Unit = synchronized {
    progress.restore(answered)
    isMoved = true
  }

  private def settle(watermarkMs: Long): Unit = synchronized {
    for (client <- server; at <- settings.server) client.note(operatorsAt(watermarkMs, at))
  }

  /** @return whether the server was asked, and operators may be further now */
  private def ask(): Boolean = server.exists { client =>
    val nowMs = clock.ms
    val isBetween = batches.isBetween
    val pause =
      if (client.isOwed || keepsRows && answered > progress.low) AskMs
      else if (keepsRows) pauseMs(progress.low, furthest, movedBatchMs)
      else LongestAskMs
    (client.isOwed || isBetween) && nowMs - askedMs >= pause && {
      askedMs = nowMs
      client.repeat(progress.table).foreach(low => answered = Math.max(answered, low))
      isBetween && keepsRows
    }
  }

  /** With a server, the low watermark of all sinks of the application before the batch, in microseconds;
    * [[SparkWatermark.Never]] if it isn't known.
    */
  def globalLow(next: Long): Option[Long] = synchronized {
    batches.at(next): Unit
    server.map { client =>
      // Only a report gets an answer. The source's own low watermark in it is used at the end of a batch.
      if (client.global.isEmpty)
        client.report(progress.table, Array.empty, hasUnread = true, batches = Some(next)): Unit
      client.global.getOrElse(SparkWatermark.Never)
    }
  }

  /** The completeness of a batch's rows: that of the stamps, times the share of hosts that this source waits
    * for.
    */
  def completeness(next: Long): Completeness = synchronized {
    batches.at(next): Unit
    upstream.andThen(settings.completeness)
  }

  /** True if a server knows all that this run of the query has read. */
  def isKnownToServer: Boolean = server.exists(_.isKnown)

  /** The low watermark now, in microseconds. */
  def low: Long = synchronized(progress.low)

  /** The number of hosts, and those that haven't passed a time. */
  def behind(through: Long): (Int, Seq[(String, Long)]) = synchronized(progress.behind(through))

  /** The hosts that it waits for, after the end of a batch. */
  def waits: SourceFacts = synchronized {
    SourceWaits
      .of(settings.name, progress.low, progress.table, progress.counted, Some(server.isDefined))
      .copy(said = server.toSeq.flatMap(_.warnings), holders = server.toSeq.flatMap(_.holders))
  }

  private def warn(advance: Advance): Unit = {
    if (advance.idle.nonEmpty)
      logWarning(
        s"TAILRACE_WATERMARK_HOST_IDLE: no row of ${WatermarkErrors.named(advance.idle)} for ${settings.idleAfterMs.get} " +
          s"ms: the watermark '${settings.name}' doesn't wait for them until they are back"
      )
    if (advance.outside.nonEmpty)
      logWarning(
        s"TAILRACE_WATERMARK_HOST_UNROSTERED: there are rows of ${WatermarkErrors.named(advance.outside)}, which the roster " +
          s"of the watermark '${settings.name}' leaves out: it doesn't wait for them, and their rows may be " +
          s"late. Add them to `${WatermarkOptions.rosterArgument(settings.isStamped)}`, or filter their rows out"
      )
    if (advance.back.nonEmpty)
      logInfo(
        s"Rows of ${WatermarkErrors.named(advance.back)} again: the watermark '${settings.name}' waits for them"
      )
  }

  /** The row for the query's progress, after the end of a batch. */
  def metrics: Row = synchronized {
    val report = progress.report(Slowest)
    val slowest = report.slowest.map { case (host, time) =>
      new GenericRowWithSchema(Array(host, timestamp(time)), HostSchema)
    }
    val (hosts, passed) = (report.expected.toLong, report.passed.toLong)
    val idle = server.fold(report.idle)(_.idleHosts).toLong
    val low = timestamp(progress.low)
    val holders = server.toSeq
      .flatMap(_.holders)
      .map(query => new GenericRowWithSchema(Array[Any](query, low), HolderSchema))
    val counts = Array[Any](hosts, passed, idle, low, lateRows, report.future)
    new GenericRowWithSchema(counts ++ Array[Any](slowest, report.unrostered.toLong, holders), MetricsSchema)
  }

  private def timestamp(micros: Long): Timestamp =
    if (micros == SparkWatermark.Never) null else DateTimeUtils.toJavaTimestamp(micros)
}

private[tailrace] object SourceWatermark {
  private val sources = new RunState[SourceWatermark]

  /** The source with the settings' name, in the run that this thread plans or executes. */
  def of(session: SparkSession, settings: ProgressSettings): SourceWatermark =
    sources.of(session, settings.name)(open(session, settings))

  private def open(session: SparkSession, settings: ProgressSettings): SourceWatermark = {
    val batch = StreamingBatch.current(session)
    val directory = new Path(new Path(batch.checkpointRoot, ProgressLog.Root), settings.name)
    def isOwn(node: LogicalPlan) =
      PartialFunction.cond(node) { case own: HostProgress => own.settings.name == settings.name }
    def inputs = StreamInputs.below(session, isOwn)
    val beginsAnew = TailraceConf.WatermarkBeginAnew.read(SparkPlans.activeSetting)
    def followsLatest = StreamingRun.current(session).followsLatestWatermark
    val reporter = settings.server.map(Reporter.of(session, batch.queryId, batch.runId, _))
    val opened = new SourceWatermark(
      settings,
      new ProgressLog(directory, session.sessionState.newHadoopConf(), beginsAnew),
      StreamingRun.current(session).clock,
      numbers => {
        val accumulator = new HostAccumulator(numbers)
        session.sparkContext.register(accumulator)
        accumulator
      },
      session.sparkContext.broadcast(_),
      askedMs => BatchInput(askedMs, StreamInputs.all(session).hasNew, inputs.hasUnread),
      session.sessionState.conf.minBatchesToRetain,
      settings.server.zip(reporter).map { case (server, by) =>
        def all = StreamInputs.below(session, _.isInstanceOf[HostProgress]).names
        new ServerClient(server, settings, by, () => QueryReads(inputs.names, all), () => inputs.words)
      },
      () => QueryTopology.hasOperators(StreamingBatch.running(session).plan),
      QueryTopology.of(session, _, _),
      settings.server.flatMap(_ => BetweenBatches.current(session)),
      // By the policy "min" no source lags behind it.
      if (batch.watermarkMs <= 0 || followsLatest) SparkWatermark.Never
      else SparkWatermark.after(batch.watermarkMs) + settings.delayMs * 1000
    )
    reporter.foreach(_.attendTo(() => opened.attend()))
    opened
  }

  /** The state of the current batch. */
  private final class Batch(val isFirst: Boolean, val askedMs: Long) {
    var collected = List.empty[HostAccumulator]
    var hasNoTasks = false
  }

  /** The names of fewer hosts aren't worth a broadcast. */
  private val FewHosts = 80

  /** A number of hosts that an executor can easily keep. The times of other hosts are sent with their names. */
  private val MostNumbered = 100000

  /** The number of hosts that the query's progress names. */
  private val Slowest = 5

  /** The time from the last report or request to the next request. With each answer an operator with state may
    * close something, in a micro-batch of its own: these micro-batches take at most a tenth of the time.
    *
    * @param low      of the source
    * @param furthest the greatest time of its hosts: without an override, the low watermark doesn't pass it
    * @param batchMs  how long the last batch took, if an answer has started it
    */
  private[watermark] def pauseMs(low: Long, furthest: Long, batchMs: Long): Long =
    if (low >= furthest) LongestAskMs else Math.max(AskMs, Math.min(batchMs * 9, LongestAskMs))

  private val AskMs = 1000L
  private val LongestAskMs = 10000L

  private val HostSchema = new StructType().add("host", StringType).add("progress", TimestampType)
  private val HolderSchema =
    new StructType().add("holder", StringType).add("lowWatermark", TimestampType)
  private[tailrace] val MetricsSchema = new StructType()
    .add("hosts", LongType)
    .add("passed", LongType)
    .add("idle", LongType)
    .add("lowWatermark", TimestampType)
    .add("lateRows", LongType)
    .add("futureRows", LongType)
    .add("slowest", ArrayType(HostSchema))
    .add("unrostered", LongType)
    .add("heldBy", ArrayType(HolderSchema))
}
