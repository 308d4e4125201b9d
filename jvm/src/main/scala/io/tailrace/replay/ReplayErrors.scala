package io.tailrace.replay

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** The errors of a replay filter that runs, and of its marks. */
object ReplayErrors {
  def marksIncomplete(directory: String, batch: Long, name: String): TailraceStateException =
    marks("TAILRACE_REPLAY_MARKS_INCOMPLETE", directory, batch, name)

  def marksMissing(directory: String, batch: Long, name: String): TailraceStateException =
    marks("TAILRACE_REPLAY_MARKS_MISSING", directory, batch, name)

  private def marks(condition: String, directory: String, batch: Long, name: String) =
    stateError(condition, null, "directory" -> directory, "batch" -> batch, "name" -> name)

  /** @param first  a partition that records of the origin were read from
    * @param second another partition
    */
  def originSplit(pid: Long, partition: Int, first: String, second: String): TailraceStateException = {
    val places = "places" -> Seq(first, second).filter(_.nonEmpty).mkString(" and ")
    stateError("TAILRACE_REPLAY_ORIGIN_SPLIT", null, "pid" -> pid, "partition" -> partition, places)
  }

  /** @param from where records of the origin were read from before this batch
    * @param to   where they are now
    */
  def originMoved(
      pid: Long,
      partition: Int,
      offset: Long,
      mark: Long,
      from: String,
      to: String
  ): TailraceStateException =
    stateError(
      "TAILRACE_REPLAY_ORIGIN_MOVED",
      null,
      "pid" -> pid,
      "partition" -> partition,
      "offset" -> offset,
      "mark" -> mark,
      "from" -> from,
      "to" -> to
    )
}

/** The errors of queries that write records' metadata. */
object MetadataErrors {
  def merge(): TailraceAnalysisException = refuse("TAILRACE_METADATA_MERGE")

  /** @param reason the operator that brings rows out of order */
  def order(reason: String): TailraceAnalysisException = refuse("TAILRACE_METADATA_ORDER", "reason" -> reason)

  def partition(reason: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_PARTITION", "reason" -> reason)

  /** @param argument that would distinguish them */
  def shared(reason: String, argument: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_SHARED", "reason" -> reason, "argument" -> argument)

  def topicAnew(topic: String, known: String, found: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_TOPIC_ANEW", "topic" -> topic, "known" -> known, "found" -> found)

  def mixed(first: String, second: String): TailraceStateException =
    stateError("TAILRACE_METADATA_MIXED", null, "first" -> first, "second" -> second)
}
