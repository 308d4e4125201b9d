package io.tailrace.label

import io.tailrace.common.{Durations, OwnNames}
import io.tailrace.state.{BalanceCounts, BalanceStep}

/** The sample of negatives at a ratio to positives: the rate of each partition in each micro-batch. It follows from the
  * examples that the partition has emitted before, of the last `over` of event time, and not from those that it decides:
  *
  * {{{
  *   rate = min(1, ratio x max(1, positives) / max(1, negatives))
  *
  *   ratio = 3 per click      before 12:30, the window has 4 clicks and 100 negatives: 0.12
  *   released at 12:30        2 clicks, all emitted; 50 negatives, of which 6 are kept on average, with weight 1 / 0.12
  * }}}
  *
  * With several labels, it is the greatest of their rates. It is never 0, so each example has a chance to be kept.
  *
  * @param ratios negatives per positive, by the names of labels
  * @param over   microseconds
  * @param start  the rate before the partition has emitted an example
  * @param rate   that of this micro-batch; outside of a task it has no meaning
  */
private[tailrace] final case class NegativeBalance(
    ratios: Seq[(String, Double)],
    over: Long,
    start: Double,
    rate: Double = 1.0
) {
  private def labels: Seq[String] = ratios.map(_._1)

  /** In `explain`, by the names of the arguments. */
  def text: String = {
    val each = ratios.map { case (label, ratio) => s"$label: $ratio" }
    s"ratio=[${each.mkString(", ")}], over=${Durations.text(over)}, start=$start"
  }

  /** That of a micro-batch.
    *
    * @param before the counts of the version that it begins with
    */
  def after(before: Option[BalanceCounts]): NegativeBalance =
    copy(rate = before.map(known).map(_.within(over)).filter(_.nonEmpty).fold(start)(rateAfter))

  /** Counts of the same labels, in their order. Those of other labels are of other negatives, and say nothing. */
  def known(counts: BalanceCounts): BalanceCounts =
    if (counts.labels.toSet != labels.toSet) BalanceCounts(labels, Nil)
    else {
      val places = labels.map(counts.labels.indexOf(_))
      BalanceCounts(labels, counts.steps.map(step => step.copy(positives = places.map(step.positives))))
    }

  private def rateAfter(steps: Seq[BalanceStep]): Double = {
    val sum = steps.reduce(_ + _)
    NegativeBalance.rate(ratios.map(_._2), sum.positives, sum.negatives)
  }
}

private[tailrace] object NegativeBalance {

  /** The column with the rate of a row's partition, of examples and of other rows. */
  val Rate: String = OwnNames.of("negative_rate")

  /** @param positives by label */
  def rate(ratios: Seq[Double], positives: Seq[Long], negatives: Long): Double = {
    val wanted = ratios.zip(positives).map { case (ratio, count) => ratio * Math.max(1L, count).toDouble }
    Math.min(1.0, wanted.max / Math.max(1L, negatives).toDouble)
  }
}
