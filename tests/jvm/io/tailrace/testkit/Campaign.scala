package io.tailrace.testkit

/** How long the fault campaigns are: short in the everyday run of the tests; `TAILRACE_FAULTS` is the number of seeds of
  * a long one.
  */
object Campaign {
  private val asked: Option[Int] = sys.env.get("TAILRACE_FAULTS").map(_.toInt)

  def isLong: Boolean = asked.isDefined

  def seeds(short: Int): Range = 0 until asked.getOrElse(short)
}
