package io.tailrace.replay

import org.apache.spark.internal.Logging

/** The origins that a batch is the first to have forgotten.
  *
  * @param marks  before the batch
  * @param from   up to when origins had been forgotten before, in ms
  * @param before up to when they are now
  */
private[replay] final class ForgottenOrigins(marks: MarkTable, from: Long, before: Long) extends Logging {
  private def entries: Iterator[Int] =
    Iterator.range(0, marks.size).filter(e => marks.isBefore(e, before) && marks.lastSeenMs(e) >= from)

  def count: Long = entries.size.toLong

  /** Says who has no protection any more: a replay of theirs would pass. */
  def report(directory: String, settings: ReplaySettings): Unit = if (entries.nonEmpty) {
    val named = entries.take(ForgottenOrigins.Named).map { e =>
      s"producer ${marks.pid(e)}, partition ${marks.partition(e)}, mark ${marks.mark(e)}, " +
        s"last seen ${java.time.Instant.ofEpochMilli(marks.lastSeenMs(e))}"
    }
    logWarning(
      s"TAILRACE_REPLAY_FORGOTTEN: the filter ${settings.name} in $directory has forgotten $count origins without a " +
        s"record for forget_after = ${settings.forgetAfterMs.getOrElse(0L)} ms. The first record of each that comes " +
        s"back passes unjudged, and is counted as returned. ${named.mkString("; ")}" +
        (if (count > ForgottenOrigins.Named) "; ..." else "")
    )
  }
}

private object ForgottenOrigins {

  /** How many a log line names. */
  val Named = 10
}
