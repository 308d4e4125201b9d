package io.tailrace.sync

import io.tailrace.common.Errors
import io.tailrace.common.Errors.{refuse, stateError}

/** The errors of synced joins, as [[Errors]] has the others'. */
object SyncErrors {

  /** @param time  microseconds
    * @param limit microseconds
    */
  def future(side: String, partition: String, time: Long, limit: Long): Throwable =
    stateError(
      "TAILRACE_SYNC_FUTURE",
      null,
      "side" -> side,
      "partition" -> partition,
      "time" -> Errors.instant(time),
      "limit" -> Errors.instant(limit)
    )

  def maxPendingUnsupported(side: String, source: String): Throwable =
    refuse("TAILRACE_SYNC_MAX_PENDING_UNSUPPORTED", "side" -> side, "source" -> source)

  def nameExists(name: String): Throwable = refuse("TAILRACE_SYNC_NAME_EXISTS", "name" -> name)

  def notStreaming(side: String): Throwable = refuse("TAILRACE_SYNC_NOT_STREAMING", "side" -> side)

  def partitionType(argument: String, column: String, dataType: String): Throwable =
    refuse("TAILRACE_SYNC_PARTITION_TYPE", "argument" -> argument, "column" -> column, "type" -> dataType)

  def partitionMissing(side: String, argument: String, columns: Seq[String]): Throwable =
    refuse(
      "TAILRACE_SYNC_PARTITION_MISSING",
      "side" -> side,
      "argument" -> argument,
      "columns" -> columns.mkString(", ")
    )

  def nameChanged(name: String, before: Seq[String]): Throwable =
    stateError("TAILRACE_SYNC_NAME_CHANGED", null, "name" -> name, "before" -> before.mkString(", "))

  def stallAfterMissing(argument: String, onStall: String): Throwable =
    refuse("TAILRACE_SYNC_STALL_AFTER_MISSING", "argument" -> argument, "onStall" -> onStall)

  def futureLimitMissing(onFuture: String): Throwable =
    refuse("TAILRACE_SYNC_FUTURE_LIMIT_MISSING", "onFuture" -> onFuture)

  def topicsMerged(name: String, side: String, topics: Seq[String]): Throwable =
    refuse("TAILRACE_SYNC_TOPICS_MERGED", "name" -> name, "side" -> side, "topics" -> topics.mkString(", "))

  def suffix(column: String, side: String): Throwable =
    refuse("TAILRACE_SYNC_SUFFIX", "column" -> column, "side" -> side)

  /** @param latest   how far the partition has been read, as text; none: nothing of it
    * @param lag      behind the furthest partition of its side, in microseconds
    * @param silentMs for how long no row of it has come
    */
  def stalled(
      name: String,
      side: String,
      partition: String,
      latest: Option[String],
      lag: Option[Long],
      silentMs: Long
  ): Throwable =
    stateError(
      "TAILRACE_SYNC_STALLED",
      null,
      "name" -> name,
      "side" -> side,
      "partition" -> partition,
      "latest" -> latest.fold("nothing of it has been read")(t => s"it has been read up to $t"),
      "lag" -> lag.fold("behind all others")(micros => s"${micros / 1000} ms behind the furthest one"),
      "silent" -> s"$silentMs ms"
    )
}
