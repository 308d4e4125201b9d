package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow

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

/** Counts the examples that a task emits. An example before the `since` of a label is unknown, if no other label makes it a
  * positive. It isn't counted, and neither are late rows.
  */
private[label] final class EmittedExamples(balance: NegativeBalance, batch: LabelBatch) {
  import batch.context.{columns, metric, store}

  private val places =
    balance.ratios.map { case (label, _) =>
      columns.left.size + columns.added.indexWhere(_.name == label)
    }.toArray
  private val markAt =
    if (batch.settings.hasMarks) columns.left.size + columns.added.size - 1 else EmittedExamples.NoMark
  private val positives = new Array[Long](places.length)
  private var allPositives = 0L
  private var negatives = 0L

  def counting(rows: Iterator[InternalRow]): Iterator[InternalRow] = rows.map { row =>
    if (markAt == EmittedExamples.NoMark || row.isNullAt(markAt)) see(row)
    row
  }

  private def see(row: InternalRow): Unit = {
    var known = 0
    var matched = 0
    var i = 0
    while (i < places.length) {
      if (!row.isNullAt(places(i))) {
        known += 1
        if (row.getArray(places(i)).numElements() > 0) {
          matched += 1
          positives(i) += 1
        }
      }
      i += 1
    }
    if (matched > 0) allPositives += 1
    else if (known == places.length) negatives += 1
  }

  /** Those of the next version; none: no example has been emitted. */
  def counts: Option[BalanceCounts] = {
    val before = store.balance.fold(BalanceCounts(balance.ratios.map(_._1), Nil))(balance.known)
    val next =
      if (allPositives + negatives == 0) before
      else before.add(batch.through, (positives.toSeq, negatives), balance.over)
    Option.when(next.steps.nonEmpty)(next)
  }

  def report(): Unit = {
    metric(LabelMetrics.BalancedPositives) += allPositives
    metric(LabelMetrics.BalancedNegatives) += negatives
    metric(LabelMetrics.BalancedNegativesExpected) += Math.round(balance.rate * negatives.toDouble)
  }
}

private object EmittedExamples {
  val NoMark: Int = -1
}
