package io.tailrace.windows

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.tailrace._

import io.tailrace.common.{Durations, EventTimes, SparkWatermark, TailraceStateException}
import io.tailrace.driver.{IdleClock, IdleQuery}
import io.tailrace.watermark._

/** Decides when windows close, and makes their reports.
  *
  * Without a server, a window closes when this query's low watermark has reached its end. With a server, the
  * global low watermark of the application must have passed it too: the sink reports its own, and gets that
  * of all. While the server is away, no window closes.
  *
  * The sink's low watermark is that of its last batch. In a query without state it may be later: its sources
  * report rows only after they have landed, so the server's low watermark of the sources holds for the sink
  * too. That is so when the server knows the sources of this run; before, it may mean others with their
  * names. The server's low watermark of the sink counts as well: an operator may have advanced it by hand.
  *
  * @param reporter  of the sink's query, when it runs
  * @param committed the number of micro-batches that the query has committed, when it runs
  * @param clock     of the query's run
  * @param isIdle    whether the query has been idle for too long: then open windows close as they are
  */
private[windows] final class WindowCloser(
    folder: LandingFolder,
    settings: LandingSettings,
    reporter: () => Option[Reporter],
    committed: () => Option[Long] = () => None,
    clock: () => RunClock = () => RunClock.System,
    isIdle: () => Boolean = () => false
) extends Logging {
  private val client = settings.server.map(s => new SinkClient(s.settings, reporter, settings.path))
  private var hasBegun = false
  // The server compares it with an earlier run: a checkpoint that was restored from an older copy doesn't
  // receive the progress of that run. Looked up once, so that polls cost no listing.
  private var landed = Option.empty[Long]
  private var own = SparkWatermark.Never
  private var closing = SparkWatermark.Never
  private var progress: Option[QueryProgress] = None

  // Reports that the server hasn't received, by the start of their window. The last report of a window
  // replaces earlier ones.
  private val untold = mutable.LinkedHashMap.empty[Long, ToldWindow]
  if (client.isDefined) tellOf(folder.latest)

  /** The low watermark that closes windows, in microseconds. */
  def closesAt: Option[Long] = synchronized(Option.when(closing != SparkWatermark.Never)(closing))

  private def upstreams: Seq[String] = {
    val named = settings.server.toSeq.flatMap(_.upstreams)
    if (settings.server.exists(_.isGiven)) named
    else progress.map(_.upstreams).filter(_.nonEmpty).getOrElse(named)
  }

  /** Takes the query's progress after a batch, and closes windows.
    *
    * @param batch that has landed
    */
  def afterBatch(batch: BatchFile, after: QueryProgress): Unit = synchronized {
    own = Math.max(own, after.low)
    landed = Some(batch.batch + 1)
    progress = Some(after)
    if (client.isDefined) tellOf(folder.lateIn(batch))
    poll()
  }

  /** True if the last request was refused, because another query or run reports the sink or writes the
    * folder. Only the next batch asks again.
    */
  def isRefused: Boolean = refused
  @volatile private var refused = false

  /** To be called before rows land. At the start of a run, and after a refusal, it asks the server, which
    * refuses a query that writes what another one writes.
    *
    * @param batchId the batch whose rows will land
    */
  def begin(batchId: Long): Unit = synchronized {
    landed = Some(batchId)
    if (!hasBegun) client.foreach(server => hasBegun = server.report(own, upstreams, Nil, landed).isDefined)
    refused = false
  }

  /** Gets the low watermark, and closes windows. */
  def poll(): Unit = synchronized {
    try ask()
    catch {
      case e: TailraceStateException =>
        refused = true
        hasBegun = false
        throw e
    }
  }

  private def ask(): Unit =
    client match {
      case None =>
        closeThrough(own)
        if (isIdle()) closeAll()
      case Some(server) =>
        tell(server).foreach { word =>
          own = Math.max(own, trusted(word))
          word.applications.foreach(all => closeThrough(Math.min(own, all)))
          // Windows that have just closed are reported at once, so that the server's pages show them.
          if (untold.nonEmpty) tell(server): Unit
        }
    }

  private def tell(server: SinkClient): Option[SinkWord] = {
    val telling = untold.values.take(SinkClient.MostWindows).toSeq
    if (landed.isEmpty) landed = committed()
    val word = server.report(own, upstreams, telling, landed)
    if (word.isDefined) telling.foreach(window => untold.remove(window.start))
    word
  }

  private def trusted(word: SinkWord): Long = {
    val ofSources = settings.server.exists(_.ofSources) &&
      progress.exists(p => !p.hasState && p.sources.nonEmpty && p.sources.forall(_.isKnownToServer))
    val input = if (ofSources) word.input.map(_ - settings.delay) else None
    Math.max(input.getOrElse(SparkWatermark.Never), word.output.getOrElse(SparkWatermark.Never))
  }

  private def closeThrough(low: Long): Unit = {
    closing = Math.max(closing, low)
    if (low != SparkWatermark.Never) close(low, low)
  }

  /** Closes the windows that end at a time or before.
    *
    * @param low the low watermark that the reports have
    */
  private def close(through: Long, low: Long): Unit = if (folder.closes(through)) {
    hosts(settings.windows.closedBy(through).getOrElse(Windows.Earliest)).foreach { behind =>
      val reports = folder.close(through, _.map { case (start, rows) => report(start, rows, low, behind) })
      if (client.isDefined) tellOf(reports.map(_ -> 0L))
    }
  }

  /** Closes all windows that have rows, though the low watermark hasn't reached their ends. It stays where it is. */
  private def closeAll(): Unit = folder.state.rows.lastOption.foreach { case (newest, _) =>
    val end = settings.windows.end(newest)
    logWarning(
      s"TAILRACE_CLOSED: the query has had no input for ${Durations.text(settings.idleTimeoutMs.get * 1000)}, so the " +
        s"windows of ${settings.path} up to ${EventTimes.iso(end)} close by idle_timeout. Rows that come for them now are late"
    )
    close(end, if (own == SparkWatermark.Never) Windows.Earliest else own)
  }

  /** The hosts of each source that are before a time; none if the server is away. */
  private def hosts(through: Long): Option[Seq[SourceHosts]] = {
    val found = settings.sources.map { source =>
      (client, source.server.filter(s => settings.server.exists(_.settings.isBeside(s)))) match {
        case (Some(server), Some(at)) => server.hosts(at.operator, source, through)
        case _ => progress.flatMap(_.hosts(source.name, through))
      }
    }
    Option.when(found.forall(_.isDefined))(found.flatten)
  }

  private def report(start: Long, rows: Long, low: Long, sources: Seq[SourceHosts]): WindowReport = {
    val end = settings.windows.end(start)
    val behind = sources.flatMap(s => s.behind.filter(_._2 < end).map { case (host, at) => (s, host, at) })
    val parts = sources.map { s =>
      val roster = settings.sources.find(_.name == s.source).filter(_.roster.isDefined).map(_.rosterVersion)
      SourcePart(s.source, s.completeness, s.expected, s.expected - behind.count(_._1 eq s), roster)
    }
    val missing = behind.sortBy { case (s, host, at) => (at, s.source, host) }.take(settings.missing).map {
      case (s, host, at) => MissingHost(s.source, host, Option.when(at != SparkWatermark.Never)(at))
    }
    WindowReport(
      start,
      end,
      rows,
      parts.map(_.expected).sum,
      parts.map(_.passed).sum,
      missing,
      progress.fold(settings.completeness)(_.completeness).toString,
      low,
      TimeUnit.MILLISECONDS.toMicros(clock().wallMs),
      parts
    )
  }

  private def tellOf(reports: Seq[(WindowReport, Long)]): Unit = reports.foreach { case (r, late) =>
    val missing = r.missing.map(host => host.host -> host.progress)
    untold(r.start) = ToldWindow(r.start, r.end, r.expected, r.passed, missing, late)
  }
}

/** The progress of a query after a batch has landed.
  *
  * @param low       all rows before this time have landed, except those of hosts that lag; in microseconds
  * @param hasState  whether operators hold rows
  * @param upstreams the operators whose rows the sink gets, by their names at a server
  */
private[windows] final case class QueryProgress(
    low: Long,
    hasState: Boolean,
    sources: Seq[QuerySource],
    upstreams: Seq[String]
) {
  def completeness: Completeness = sources.map(_.completeness).foldLeft(Completeness.Whole)(_ andThen _)

  def hosts(source: String, through: Long): Option[SourceHosts] =
    sources.find(_.name == source).map(_.hosts(through))
}

private[windows] object QueryProgress {

  /** To be called in the query's thread. The sources then end the batch, and report it to a server.
    *
    * @param watermarkMs Spark's watermark of the batch
    * @param server      that the sink reports to
    */
  def after(
      session: SparkSession,
      plan: SparkPlan,
      watermarkMs: Long,
      server: Option[ServerSettings]
  ): QueryProgress = {
    val nodes = StreamingPlan.watermarkNodes(plan)
    val sources = QuerySource.of(session, nodes)
    val low = OutputWatermark.afterBatch(plan, watermarkMs, QuerySource.low(_, sources), SparkWatermark.after)
    val upstreams = server.toSeq.flatMap(QueryTopology.above(plan, _))
    QueryProgress(low.getOrElse(SparkWatermark.Never), StreamingPlan.hasState(plan), sources, upstreams)
  }
}

/** For how long the query of a sink has had neither input nor rows that land, in one run.
  *
  * Spark asks operators with state whether another batch is needed, and no sink. So a thread looks which request to the
  * sources was the last one without a batch. Time counts by the requests, as in a join: of two equal timeouts a join
  * upstream flushes its rows first, and they land before windows close.
  *
  * @param limitMs  see [[IdleQuery]]
  * @param answered when Spark last asked the sources, if they had nothing new; none while a batch is made or runs
  */
private[windows] final class IdleSink(limitMs: Long, answered: () => Option[Long]) {
  private val idle = new IdleQuery(limitMs)
  private var seenMs = Long.MinValue

  /** A batch has landed.
    *
    * @param askedMs when Spark asked the sources for it
    * @param hasRows whether it has input, or rows that operators have flushed
    */
  def landed(batch: Long, askedMs: Long, hasRows: Boolean): Unit = synchronized {
    see(askedMs): Unit
    idle.begins(batch, hasRows)
  }

  /** True once after each idle time of that length. For another thread than the query's. */
  def isTooLong: Boolean = synchronized {
    val isLong = answered().filter(_ > seenMs).exists(see)
    if (isLong) idle.beginAnew()
    isLong
  }

  private def see(ms: Long): Boolean = {
    seenMs = ms
    idle.asked(ms)
  }
}

/** Closes windows each second while a query runs: other queries move the global low watermark while this one
  * has no batch, and an idle query has none. The thread ends with the query, and pauses while the server refuses it.
  *
  * @param isActive whether the query runs
  */
private[windows] final class ClosingThread(
    path: Path,
    closer: WindowCloser,
    isActive: () => Boolean,
    everyMs: Long = ClosingThread.EveryMs
) extends Thread(s"tailrace windows of $path")
    with Logging {
  import ClosingThread._
  setDaemon(true)

  override def run(): Unit = {
    // Of no run: the query may never start.
    val started = RunClock.System.nanos
    var seen = false
    def goesOn = isActive() || (!seen && RunClock.System.nanos - started < LongestStart)
    while (goesOn) {
      seen = seen || isActive()
      Thread.sleep(everyMs)
      if (isActive() && !closer.isRefused) poll()
    }
  }

  private def poll(): Unit =
    try closer.poll()
    catch {
      // The next batch asks again before its rows land, and fails if it is still refused.
      case e: TailraceStateException =>
        warn("is refused; no window closes before the next micro-batch, which asks again", e)
      case NonFatal(e) => warn("has failed, and is tried again in a second", e)
    }

  private def warn(happened: String, e: Throwable): Unit =
    logWarning(s"TAILRACE_WINDOWS_NOT_CLOSED: closing windows of $path $happened", e)
}

private[windows] object ClosingThread {
  private val EveryMs = 1000L

  /** A request to the sources counts an eighth of the timeout at most, so each of them has to be seen. */
  def every(idleTimeoutMs: Option[Long]): Long =
    idleTimeoutMs.fold(EveryMs)(ms => Math.max(20L, Math.min(EveryMs, ms / IdleClock.Steps)))

  /** A query that hasn't started after this time never will. */
  private val LongestStart = 600L * 1000 * 1000 * 1000
}
