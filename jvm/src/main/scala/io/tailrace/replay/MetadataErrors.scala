package io.tailrace.replay

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** The errors of queries that write records' metadata. */
object MetadataErrors {
  def merge(): TailraceAnalysisException = refuse("TAILRACE_METADATA_MERGE")

  /** @param reason what brings rows out of order */
  def order(reason: String): TailraceAnalysisException = refuse("TAILRACE_METADATA_ORDER", "reason" -> reason)

  def partition(reason: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_PARTITION", "reason" -> reason)

  /** @param argument that would tell them apart */
  def shared(reason: String, argument: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_SHARED", "reason" -> reason, "argument" -> argument)

  def topicAnew(topic: String, known: String, found: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_TOPIC_ANEW", "topic" -> topic, "known" -> known, "found" -> found)

  def mixed(first: String, second: String): TailraceStateException =
    stateError("TAILRACE_METADATA_MIXED", null, "first" -> first, "second" -> second)
}
