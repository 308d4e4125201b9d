package io.tailrace.replay

import io.tailrace.common.Errors.refuse

/** The errors of queries that write records' metadata, as [[Errors]] has the others'. */
object MetadataErrors {
  def merge(): Throwable = refuse("TAILRACE_METADATA_MERGE")

  /** @param reason what brings rows out of order */
  def order(reason: String): Throwable = refuse("TAILRACE_METADATA_ORDER", "reason" -> reason)

  def partition(reason: String): Throwable = refuse("TAILRACE_METADATA_PARTITION", "reason" -> reason)

  /** @param argument that would tell them apart */
  def shared(reason: String, argument: String): Throwable =
    refuse("TAILRACE_METADATA_SHARED", "reason" -> reason, "argument" -> argument)

  def topicAnew(topic: String, known: String, found: String): Throwable =
    refuse("TAILRACE_METADATA_TOPIC_ANEW", "topic" -> topic, "known" -> known, "found" -> found)
}
