package io.tailrace.join

import io.tailrace.common.Errors.refuse
import io.tailrace.common.TailraceAnalysisException

/** The errors of both joins. */
object JoinErrors {

  /** @param other the column of that side that does have a watermark, if one has */
  def watermarkMissing(side: String, column: String, other: Option[String]): TailraceAnalysisException =
    refuse(
      "TAILRACE_JOIN_WATERMARK_MISSING",
      "side" -> side,
      "column" -> column,
      "other" -> other.fold("")(c => s" (its watermark is on `$c`)"),
      "delay" -> "10 minutes"
    )

  def mixedBatchAndStream(stream: String, batch: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_MIXED_BATCH_AND_STREAM", "stream" -> stream, "batch" -> batch)

  def keysMissing(): TailraceAnalysisException = refuse("TAILRACE_JOIN_KEYS_MISSING")

  def keyTypesDiffer(
      left: String,
      leftType: String,
      right: String,
      rightType: String
  ): TailraceAnalysisException =
    refuse(
      "TAILRACE_JOIN_KEY_TYPES_DIFFER",
      "left" -> left,
      "leftType" -> leftType,
      "right" -> right,
      "rightType" -> rightType
    )

  def keyTypeUnsupported(column: String, dataType: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED", "column" -> column, "type" -> dataType)

  def keyCollated(column: String, dataType: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_KEY_COLLATED", "column" -> column, "type" -> dataType)

  def timeTypesDiffer(
      left: String,
      leftType: String,
      right: String,
      rightType: String
  ): TailraceAnalysisException =
    refuse(
      "TAILRACE_JOIN_TIME_TYPES_DIFFER",
      "left" -> left,
      "leftType" -> leftType,
      "right" -> right,
      "rightType" -> rightType
    )

  def optionConflict(argument: String, value: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> argument, "value" -> value)

  def labelEmpty(into: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_LABEL_EMPTY", "into" -> into)
}
