package io.tailrace.recursion

/** How [[Tailrace.recursively]] goes round. Names and meanings are those of the Python package.
  *
  * @param maxDepth    hops after which no row may come out; none: any number, up to a guard against loops
  * @param maxRows     rows that a task may give in a micro-batch
  * @param onLimit     "error" or "stop"
  * @param depthColumn a column that is added: the hop at which a row came out
  * @param pathColumns the columns that a row is known by: `path` is added, those that it has come by, and cycles are found
  * @param onCycle     "error", "stop" or "divert"
  * @param mode        "auto", "fixpoint" or "feedback"
  * @param name        of the recursion in the query's checkpoint and progress
  */
final case class RecursionOptions(
    maxDepth: Option[Int] = None,
    maxRows: Option[Long] = None,
    onLimit: String = "error",
    depthColumn: Option[String] = None,
    pathColumns: Seq[String] = Nil,
    onCycle: String = "error",
    mode: String = "auto",
    name: String = "recursion"
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: RecursionSettings = {
    maxDepth.filter(_ < 1).foreach(refuse("max_depth", _, "a whole number of 1 or more"))
    maxRows.filter(_ < 1).foreach(refuse("max_rows", _, "a whole number of 1 or more"))
    if (!name.matches("[A-Za-z0-9_-]{1,100}")) refuse("name", name, "1 to 100 letters, digits, _ and -")
    val limit = OnLimit.values.find(_.name == onLimit).getOrElse(refuse("on_limit", onLimit, "error or stop"))
    val cycle =
      OnCycle.values.find(_.name == onCycle).getOrElse(refuse("on_cycle", onCycle, "error, stop or divert"))
    if (pathColumns.isEmpty && cycle != OnCycle.Error) throw RecursionErrors.cycleWithoutPath(onCycle)
    RecursionSettings(name, maxDepth, maxRows, limit, cycle)
  }

  /** None: as op's plan wants it. */
  private[recursion] def wantedMode: Option[RecursionMode] =
    if (mode == "auto") None
    else
      Some(
        RecursionMode.values
          .find(_.name == mode)
          .getOrElse(refuse("mode", mode, "auto, fixpoint or feedback"))
      )

  private def refuse(argument: String, value: Any, allowed: String): Nothing =
    throw RecursionErrors.optionInvalid(argument, value.toString, allowed)
}
