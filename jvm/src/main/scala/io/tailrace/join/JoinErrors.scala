package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.Attribute

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{Durations, EventTimes, TailraceAnalysisException, TailraceStateException}
import io.tailrace.driver.LabelStreamFacts

/** The errors of all joins. */
object JoinErrors {

  /** @param other the column of that side that does have a watermark, if one has */
  def watermarkMissing(side: String, column: String, other: Option[String]): TailraceAnalysisException =
    watermarkMissing("TAILRACE_JOIN_WATERMARK_MISSING", "side" -> side, column, other)

  /** The same of a stream that isn't a side for the user.
    *
    * @param frame "the DataFrame of label 'click'"
    */
  def watermarkMissingOf(frame: String, column: String, other: Option[String]): TailraceAnalysisException =
    watermarkMissing("TAILRACE_EXAMPLES_WATERMARK_MISSING", "frame" -> frame, column, other)

  private def watermarkMissing(
      condition: String,
      stream: (String, String),
      column: String,
      other: Option[String]
  ): TailraceAnalysisException = {
    val elsewhere = other.fold("")(c => s" (its watermark is on `$c`)")
    refuse(condition, stream, "column" -> column, "other" -> elsewhere, "delay" -> "10 minutes")
  }

  def mixedBatchAndStream(stream: String, batch: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_MIXED_BATCH_AND_STREAM", "stream" -> stream, "batch" -> batch)

  def keysMissing(): TailraceAnalysisException = refuse("TAILRACE_JOIN_KEYS_MISSING")

  def keyTypesDiffer(left: Attribute, right: Attribute): TailraceAnalysisException =
    typesDiffer("TAILRACE_JOIN_KEY_TYPES_DIFFER", left, right)

  def keyTypeUnsupported(column: String, dataType: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED", "column" -> column, "type" -> dataType)

  def keyCollated(column: String, dataType: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_KEY_COLLATED", "column" -> column, "type" -> dataType)

  def timeTypesDiffer(left: Attribute, right: Attribute): TailraceAnalysisException =
    typesDiffer("TAILRACE_JOIN_TIME_TYPES_DIFFER", left, right)

  def optionConflict(argument: String, value: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> argument, "value" -> value)

  private[tailrace] def labelStalled(stream: LabelStreamFacts): TailraceStateException = stateError(
    "TAILRACE_EXAMPLES_STALLED",
    null,
    "labels" -> stream.labels.mkString(", "),
    "silent" -> Durations.text(stream.silentMs * 1000),
    "watermark" -> stream.readTo.fold("no row of it has come since the query started") { time =>
      s"its watermark is ${EventTimes.iso(time)}"
    }
  )

  def watermarkShared(operator: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_WATERMARK_SHARED", "operator" -> operator)

  def closesInNoBatch(): TailraceAnalysisException = refuse("TAILRACE_JOIN_CLOSES_IN_NO_BATCH")

  def labelEmpty(into: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_LABEL_EMPTY", "into" -> into)

  private def typesDiffer(condition: String, left: Attribute, right: Attribute): TailraceAnalysisException =
    refuse(
      condition,
      "left" -> left.name,
      "leftType" -> left.dataType.sql,
      "right" -> right.name,
      "rightType" -> right.dataType.sql
    )
}
