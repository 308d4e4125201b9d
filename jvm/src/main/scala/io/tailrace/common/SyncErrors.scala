package io.tailrace.common

import io.tailrace.common.Errors.{refuse, stateError}

/** The errors of synced joins, as [[Errors]] has the others'. */
object SyncErrors {
  def maxPendingUnsupported(side: String, source: String): Throwable =
    refuse("TAILRACE_SYNC_MAX_PENDING_UNSUPPORTED", "side" -> side, "source" -> source)

  def nameExists(name: String): Throwable = refuse("TAILRACE_SYNC_NAME_EXISTS", "name" -> name)

  def notStreaming(side: String): Throwable = refuse("TAILRACE_SYNC_NOT_STREAMING", "side" -> side)

  def partitionType(argument: String, column: String, dataType: String): Throwable =
    refuse("TAILRACE_SYNC_PARTITION_TYPE", "argument" -> argument, "column" -> column, "type" -> dataType)

  def stallAfterMissing(onStall: String): Throwable =
    refuse("TAILRACE_SYNC_STALL_AFTER_MISSING", "onStall" -> onStall)

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
