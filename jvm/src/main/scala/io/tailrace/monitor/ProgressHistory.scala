package io.tailrace.monitor

import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Instant, LocalDate}
import java.util.UUID
import java.util.concurrent.{ScheduledThreadPoolExecutor, TimeUnit}

import scala.collection.immutable.Queue
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.apache.spark.sql.streaming.StreamingQueryProgress

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.TailraceStateException

/** Keeps the progress of all queries of an application as files of JSON lines, which `tailrace-progress` reads.
  *
  * {{{
  *   12:07:10 batch 7 of examples  --> in memory
  *   12:07:20 batch 8 of examples  --> in memory
  *   12:08:00                      --> <directory>/date=2026-01-01/<application>-<unique>.json, two lines
  * }}}
  *
  * A file a micro-batch would be thousands a day. So lines wait for a minute, or for the end of their query. A
  * driver that is killed loses those of its last minute. If the directory can't be written to, queries go on,
  * the log says so, and lines wait for the next minute.
  *
  * @param application its id, which begins the files' names
  */
private[monitor] final class ProgressHistory(directory: Path, conf: Configuration, application: String)
    extends Logging {
  import ProgressHistory._

  private val files = DurableFiles.in(directory, conf)
  private var waiting = Queue.empty[(LocalDate, String)]
  private var dropped = 0L
  private val writing = new Object
  private val every = new ScheduledThreadPoolExecutor(1, (task: Runnable) => newThread(task))
  every.scheduleWithFixedDelay(() => flush(), EverySeconds, EverySeconds, TimeUnit.SECONDS): Unit

  /** @param values of the progress, by [[ProgressValues]] */
  def add(progress: StreamingQueryProgress, values: Seq[MetricValue]): Unit =
    add(Instant.parse(progress.timestamp), ProgressReport.line(progress, values))

  /** A query has ended. Its lines are written at once. */
  def end(query: String, event: QueryTerminatedEvent): Unit = {
    val now = Instant.now
    add(now, ProgressReport.end(query, event, now))
    flush()
  }

  private def add(at: Instant, line: String): Unit = synchronized {
    waiting = waiting :+ (ProgressReport.day(at) -> line)
    forgetOldest()
  }

  /** Writes the lines that wait. Calls wait for each other, so that a query's end finds its lines written. */
  def flush(): Unit = writing.synchronized {
    val lines = synchronized { val taken = waiting; waiting = Queue.empty; taken }
    // Days one after the other: a failure keeps those that aren't written yet.
    lines.groupMap(_._1)(_._2).toSeq.sortBy(_._1.toEpochDay).foreach { case (day, ofDay) =>
      try write(day, ofDay)
      catch { case NonFatal(e) => keep(ofDay.map(day -> _), e) }
    }
  }

  private def write(day: LocalDate, lines: Seq[String]): Unit = {
    val file = new Path(new Path(directory, s"date=$day"), s"$application-${UUID.randomUUID}.json")
    try files.create(file)(_.write(lines.mkString("", "\n", "\n").getBytes(UTF_8)))
    // It says that a file of a state can't be written. What the file system has said is true of this one, too.
    catch { case e: TailraceStateException => throw e.getCause }
  }

  private def keep(lines: Seq[(LocalDate, String)], cause: Throwable): Unit = {
    val lost = synchronized { waiting = waiting.prependedAll(lines); forgetOldest(); dropped }
    logWarning(
      s"The history of the queries' progress can't be written to $directory: $cause. ${lines.size} micro-batches " +
        s"wait for the next attempt; $lost were dropped.",
      cause
    )
  }

  private def forgetOldest(): Unit = {
    val surplus = waiting.size - Most
    if (surplus > 0) {
      waiting = waiting.drop(surplus)
      dropped += surplus
    }
  }

  /** At the end of the application. */
  def close(): Unit = {
    every.shutdownNow(): Unit
    flush()
  }
}

private[monitor] object ProgressHistory {
  private val EverySeconds = 60L

  private def newThread(task: Runnable): Thread = {
    val thread = new Thread(task, "tailrace-progress-history")
    thread.setDaemon(true)
    thread
  }

  /** Lines in memory, about 5 kB each. */
  private[monitor] val Most = 10000
}
