package io.tailrace.common

/** The name of an operator's numbers in a query's progress, `observedMetrics`: `tailrace.<what>`, and `tailrace.<what>.<name>`
  * if the user has given the operator a name of its own. So two operators of one query never share a name there.
  */
object ProgressName {

  /** @param default the name of an operator that the user has given none */
  def apply(what: String, name: String, default: String): String =
    if (name == default) s"tailrace.$what" else s"tailrace.$what.$name"
}
