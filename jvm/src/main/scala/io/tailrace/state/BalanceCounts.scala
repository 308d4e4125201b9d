package io.tailrace.state

/** The examples that a partition has emitted within a window of event time: the rate of the negatives of its next micro-batch
  * follows from them. They are part of the partition's version, so a micro-batch that runs again decides the same.
  *
  * {{{
  *   labels = [click]      12:00   1 positive, 40 negatives
  *                         12:04   3 positives, 60 negatives       4 and 100: with 3 negatives per click, rate = 0.12
  * }}}
  *
  * @param labels names of the labels that make an example a positive
  * @param steps  ascending by time
  */
final case class BalanceCounts(labels: Seq[String], steps: Seq[BalanceStep]) {

  /** The steps of the last `over` of event time in which examples were emitted. */
  def within(over: Long): Seq[BalanceStep] = steps.lastOption.fold(Seq.empty[BalanceStep]) { newest =>
    steps.filter(step => BalanceCounts.isWithin(step.time, newest.time, over))
  }

  /** Adds the examples of a micro-batch, and removes the steps that have left the window.
    *
    * @param through results of left rows up to this time have been emitted
    * @param counts  positives, one count per label; negatives
    */
  def add(through: Long, counts: (Seq[Long], Long), over: Long): BalanceCounts = {
    val begin = BalanceCounts.stepOf(through, over)
    val added = BalanceStep(begin, counts._1, counts._2)
    val next = steps.lastOption match {
      // A longer `over` has wider steps.
      case Some(last) if begin <= last.time => steps.init :+ (last + added)
      case _ => steps :+ added
    }
    copy(steps = copy(steps = next).within(over))
  }
}

/** The examples that were emitted while the time through which left rows have left was in a step.
  *
  * @param time      when the step begins, microseconds
  * @param positives for each label, the examples with an event of it
  * @param negatives the examples without an event of any of the labels
  */
final case class BalanceStep(time: Long, positives: Seq[Long], negatives: Long) {
  def +(other: BalanceStep): BalanceStep = BalanceStep(
    time,
    positives.zip(other.positives).map { case (one, more) => one + more },
    negatives + other.negatives
  )
}

object BalanceCounts {

  /** The number of steps of a window, and so the maximum of entries in a manifest. */
  val StepsPerWindow = 16

  private def stepOf(through: Long, over: Long): Long = {
    val width = Math.max(1, over / StepsPerWindow)
    // Rows without a time are emitted before any others have left.
    if (through < Long.MinValue + width) Long.MinValue else Math.floorDiv(through, width) * width
  }

  private def isWithin(time: Long, newest: Long, over: Long): Boolean =
    newest < Long.MinValue + over || time > newest - over

  /** Those of a partition that gets rows of several ones: the sums, even if others get a part of the rows, because the rate
    * follows from quotients. Equal ones are copies of one partition's, which was split, and stay as they are: a
    * micro-batch that was cut off decides by the same rate.
    */
  def merged(all: Seq[Option[BalanceCounts]]): Option[BalanceCounts] = {
    val some = all.flatten
    some.map(_.labels).distinct match {
      case _ if all.distinct.size == 1 => all.head
      case Seq(labels) =>
        val steps = some.flatMap(_.steps).groupBy(_.time).values.map(_.reduce(_ + _))
        Some(BalanceCounts(labels, steps.toSeq.sortBy(_.time)))
      case _ => None
    }
  }
}
