package io.tailrace.recursion

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{Errors, TailraceAnalysisException, TailraceStateException}

/** The errors of recursions. A `sample` has some of the rows in flight, as text. */
object RecursionErrors {
  def argumentOutside(): TailraceAnalysisException = refuse("TAILRACE_RECURSION_ARGUMENT_OUTSIDE")

  def argumentUnused(name: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_ARGUMENT_UNUSED", "name" -> name)

  /** @param found    the recursions whose rows the checkpoint has
    * @param expected the recursions of the query that keep a log
    * @param missing  the directories of those whose rows the checkpoint doesn't have
    */
  def checkpoint(
      location: String,
      found: Seq[String],
      expected: Seq[String],
      missing: Seq[String]
  ): TailraceAnalysisException = {
    val lists = Seq("found" -> found, "expected" -> expected, "missing" -> missing).map { case (key, names) =>
      key -> (if (names.isEmpty) "none" else names.sorted.mkString("`", "`, `", "`"))
    }
    refuse("TAILRACE_RECURSION_CHECKPOINT", ("location" -> location) +: lists: _*)
  }

  /** @param path the keys that the row has had, as text */
  def cycle(path: String): TailraceStateException =
    stateError("TAILRACE_RECURSION_CYCLE", null, "path" -> path)

  def endless(name: String): TailraceAnalysisException = refuse("TAILRACE_RECURSION_ENDLESS", "name" -> name)

  def feedbackIncomplete(directory: String, batch: Long): TailraceStateException =
    stateError("TAILRACE_RECURSION_FEEDBACK_INCOMPLETE", null, "directory" -> directory, "batch" -> batch)

  def heldBack(name: String, operator: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_HELD_BACK", "name" -> name, "operator" -> operator, "reason" -> reason)

  def identity(name: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_IDENTITY", "name" -> name)

  /** @param time        the time of the row, in microseconds
    * @param watermarkMs the watermark of the operator that would drop the row
    */
  def late(name: String, time: Long, watermarkMs: Long, sample: String): TailraceStateException =
    stateError(
      "TAILRACE_RECURSION_LATE",
      null,
      "name" -> name,
      "time" -> Errors.instant(time),
      "watermark" -> Errors.instant(watermarkMs * 1000),
      "sample" -> sample
    )

  def mode(name: String, mode: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_MODE", "name" -> name, "mode" -> mode, "reason" -> reason)

  def nested(name: String): TailraceAnalysisException = refuse("TAILRACE_RECURSION_NESTED", "name" -> name)

  def operator(name: String, operator: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_OPERATOR", "name" -> name, "operator" -> operator, "reason" -> reason)

  def revisions(name: String, mode: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_REVISIONS", "name" -> name, "mode" -> mode)

  def runaway(name: String, hops: Int, sample: String): TailraceStateException =
    stateError("TAILRACE_RECURSION_RUNAWAY", null, "name" -> name, "hops" -> hops, "sample" -> sample)

  def schema(name: String, differences: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_SCHEMA", "name" -> name, "differences" -> differences.mkString("; "))

  def schemaChanged(file: String, written: String, expected: String): TailraceStateException = {
    val condition = "TAILRACE_RECURSION_SCHEMA_CHANGED"
    stateError(condition, null, "file" -> file, "written" -> written, "expected" -> expected)
  }

  /** @param rows the number of rows of the last allowed depth */
  def tooDeep(depth: Int, rows: Long, sample: Seq[String]): TailraceStateException =
    limit("TAILRACE_RECURSION_TOO_DEEP", depth, rows, sample)

  def tooManyRows(rows: Long, depth: Int, sample: Seq[String]): TailraceStateException =
    limit("TAILRACE_RECURSION_TOO_MANY_ROWS", depth, rows, sample)

  private def limit(condition: String, depth: Int, rows: Long, sample: Seq[String]) =
    stateError(condition, null, "depth" -> depth, "rows" -> rows, "sample" -> sample.mkString("; "))

  def untracked(name: String, option: String, operator: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_UNTRACKED", "name" -> name, "option" -> option, "operator" -> operator)

  def watermarkPolicy(name: String): TailraceAnalysisException =
    refuse("TAILRACE_RECURSION_WATERMARK_POLICY", "name" -> name)
}
