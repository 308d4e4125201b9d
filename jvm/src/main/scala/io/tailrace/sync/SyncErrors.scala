package io.tailrace.sync

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{Errors, Side, TailraceAnalysisException, TailraceStateException}

/** The errors of synced joins. */
object SyncErrors {

  /** @param time  the event time, in microseconds
    * @param limit the furthest time that is believed, in microseconds
    */
  def future(side: Side, partition: String, time: Long, limit: Long): TailraceStateException =
    stateError(
      "TAILRACE_SYNC_FUTURE",
      null,
      "side" -> side.name,
      "partition" -> partition,
      "time" -> Errors.instant(time),
      "limit" -> Errors.instant(limit)
    )

  def maxBufferedUnsupported(side: Side, source: String): TailraceAnalysisException =
    refuse("TAILRACE_SYNC_MAX_BUFFERED_UNSUPPORTED", "side" -> side.name, "source" -> source)

  def notStreaming(side: Side): TailraceAnalysisException =
    refuse("TAILRACE_SYNC_NOT_STREAMING", "side" -> side.name)

  def partitionMissing(side: Side, argument: String, columns: Seq[String]): TailraceAnalysisException =
    refuse(
      "TAILRACE_SYNC_PARTITION_MISSING",
      "side" -> side.name,
      "argument" -> argument,
      "columns" -> columns.mkString(", ")
    )

  def nameChanged(name: String, before: Seq[String]): TailraceStateException =
    stateError("TAILRACE_SYNC_NAME_CHANGED", null, "name" -> name, "before" -> before.mkString(", "))

  def topicsMerged(name: String, side: Side, topics: Seq[String]): TailraceAnalysisException =
    refuse(
      "TAILRACE_SYNC_TOPICS_MERGED",
      "name" -> name,
      "side" -> side.name,
      "topics" -> topics.mkString(", ")
    )

  /** @param by the partition that the side waits for */
  private[tailrace] def stalled(name: String, side: Side, by: HeldBy): TailraceStateException =
    stateError(
      "TAILRACE_SYNC_STALLED",
      null,
      "name" -> name,
      "side" -> side.name,
      "partition" -> by.partition,
      "latest" -> by.latestTime.fold("nothing of it has been read")(t => s"it has been read up to $t"),
      "lag" -> by.lag.fold("behind all others")(micros => s"${micros / 1000} ms behind the furthest one"),
      "silent" -> s"${by.idleMs} ms"
    )
}
