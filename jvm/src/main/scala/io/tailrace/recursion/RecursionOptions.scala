package io.tailrace.recursion

import io.tailrace.common.{Arguments, Policy}

/** The arguments of [[io.tailrace.api.Tailrace.recursively]] besides the DataFrame and op. Names and defaults are those of
  * Python.
  *
  * @param maxDepth    the last hop at which rows may come out; none: any hop, up to a guard against loops
  * @param maxRows     how many rows a task may give in a micro-batch
  * @param onLimit     "fail" or "drop": what is done with rows beyond max_depth and max_rows
  * @param depthColumn the name of a column that is added: the hop at which a row came out
  * @param pathColumns the key of a row. A column `path` is added, the keys that the row has come by, and cycles are found
  * @param onCycle     "fail", "drop" or "mark": what is done with a row that closes a cycle
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
  private[recursion] val Name = "recursion"
  private[tailrace] val arguments = new Arguments("tailrace.recursively")
}
