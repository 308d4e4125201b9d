package io.tailrace.recursion

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{
  Arguments,
  CallDocument,
  Choice,
  Errors,
  Policy,
  TailraceAnalysisException,
  TailraceStateException
}

/** The arguments of [[io.tailrace.api.Tailrace.recursively]] besides the DataFrame and op. Names and defaults
  * are those of Python.
  *
  * @param maxDepth    the last hop at which rows may be emitted; none: any hop, up to a guard against loops
  * @param maxRows     the most rows of a task in a micro-batch
  * @param onLimit     "fail" or "drop": the treatment of rows beyond max_depth and max_rows
  * @param depthColumn the name of a column that is added: the hop at which a row was emitted
  * @param pathColumns the key of a row. A column `path` is added: the keys that led to the row; it finds cycles
  * @param onCycle     "fail", "drop" or "mark": the treatment of a row that closes a cycle
  * @param mode        "auto", "fixpoint" or "feedback"
  * @param name        the name of the recursion in the checkpoint and in the query's progress
  */
final case class RecursionOptions(
    maxDepth: Option[Int] = None,
    maxRows: Option[Long] = None,
    onLimit: String = "fail",
    depthColumn: Option[String] = None,
    pathColumns: Seq[String] = Nil,
    onCycle: String = "fail",
    mode: String = "auto",
    name: String = RecursionOptions.Name
) {
  import RecursionOptions.arguments

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: RecursionSettings = {
    maxDepth.foreach(n => arguments.number("max_depth", n.toLong, least = 1))
    maxRows.foreach(arguments.number("max_rows", _, least = 1))
    val limit = arguments.choice("on_limit", onLimit, Policy.onLimit)
    if (maxDepth.isEmpty && maxRows.isEmpty && limit != Policy.Fail)
      throw arguments.needs("on_limit", onLimit, "max_depth or max_rows, the limits")
    val cycle = arguments.choice("on_cycle", onCycle, Policy.onCycle)
    if (pathColumns.isEmpty && cycle != Policy.Fail)
      throw arguments.needs("on_cycle", onCycle, "path_columns, the columns that a row is known by")
    RecursionSettings(arguments.name(name), maxDepth, maxRows, limit, cycle)
  }

  /** None: the plan of op decides. */
  private[recursion] def wantedMode: Option[RecursionMode] = {
    val wanted = RecursionMode.values.find(_.name == mode)
    if (wanted.isEmpty && mode != "auto")
      throw arguments.invalid("mode", mode, Arguments.oneOf("auto" +: RecursionMode.values.map(_.name)))
    wanted
  }
}

object RecursionOptions {

  private[tailrace] def of(document: CallDocument): RecursionOptions = RecursionOptions(
    // Every depth above the greatest Int is as good as that one; one below 1 is refused.
    maxDepth = document
      .get("max_depth")
      .map(depth => Math.max(-1, Math.min(Int.MaxValue.toLong, depth.long)).toInt),
    maxRows = document.get("max_rows").map(_.long),
    onLimit = document("on_limit").text,
    depthColumn = document.get("depth_column").map(_.text),
    pathColumns = document.get("path_columns").toSeq.flatMap(_.texts),
    onCycle = document("on_cycle").text,
    mode = document("mode").text,
    name = document("name").text
  )

  private[recursion] val Name = "recursion"
  private[tailrace] val arguments = new Arguments("tailrace.recursively")
}

/** The checked options of a recursion. Rows that `onLimit` or `onCycle` stops are emitted, or are dropped, and
  * don't go round again.
  *
  * @param maxDepth none: as many hops as it takes, up to [[RecursionSettings.Guard]]
  */
final case class RecursionSettings(
    name: String,
    maxDepth: Option[Int] = None,
    maxRows: Option[Long] = None,
    onLimit: Policy = Policy.Fail,
    onCycle: Policy = Policy.Fail
)

object RecursionSettings {

  /** A recursion without `max_depth` that makes more hops is taken for one that doesn't end. */
  val Guard = 100000
}

/** The way in which rows go round. The plan of op decides. */
sealed abstract class RecursionMode(val name: String) extends Choice

object RecursionMode {

  /** All hops in the micro-batch that brought the row. */
  case object Fixpoint extends RecursionMode("fixpoint")

  /** A hop a micro-batch, over a log in the checkpoint. */
  case object Feedback extends RecursionMode("feedback")

  val values: Seq[RecursionMode] = Seq(Fixpoint, Feedback)
}

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
