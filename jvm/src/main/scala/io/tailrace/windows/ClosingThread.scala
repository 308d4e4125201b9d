package io.tailrace.windows

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.common.TailraceStateException

/** Closes windows each second while a query runs: other jobs move the global low watermark when this one has nothing to
  * do. It ends with the query, and rests while the server refuses it.
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
    val started = System.nanoTime()
    var seen = false
    def goesOn = isActive() || (!seen && System.nanoTime() - started < LongestStart)
    while (goesOn) {
      seen = seen || isActive()
      Thread.sleep(everyMs)
      if (isActive() && !closer.isRefused) poll()
    }
  }

  private def poll(): Unit =
    try closer.poll()
    catch {
      // The next batch asks again, before its rows land, and ends the query with it, if it lasts.
      case e: TailraceStateException =>
        logWarning(
          s"TAILRACE_WINDOWS_NOT_CLOSED: closing windows of $path is refused; no window closes before the " +
            "next micro-batch, which asks again",
          e
        )
      case NonFatal(e) =>
        logWarning(
          s"TAILRACE_WINDOWS_NOT_CLOSED: closing windows of $path has failed, and is tried again in a second",
          e
        )
    }
}

private[windows] object ClosingThread {
  private val EveryMs = 1000L

  /** A query that hasn't started by then never does. */
  private val LongestStart = 600L * 1000 * 1000 * 1000
}
