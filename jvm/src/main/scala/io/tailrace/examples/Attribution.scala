package io.tailrace.examples

import org.apache.spark.sql.types.Decimal

/** Distributes the credit of an event over several impressions. The touches of an event are the impressions in
  * whose window it is, in the order of time, and of a hash of their content where times are equal.
  *
  * {{{
  *   impressions of user 1   12:00   12:10   12:30          an order at 12:40, after = 1 hour
  *   last touch                                1
  *   first touch               1
  *   linear                  0.333333333 0.333333333 0.333333334
  * }}}
  *
  * Credits are whole numbers of billionths. The rounding remainder goes to the last touch, so they sum to 1.
  */
sealed trait Attribution extends Serializable {

  /** True if events carry their credit. Otherwise an event belongs to one impression, with the whole credit. */
  def isShared: Boolean
}

object Attribution {
  val Whole = 1000000000L

  /** @param share in billionths */
  def decimal(share: Long): Decimal = Decimal(share, 10, 9)

  case object LastTouch extends Attribution {
    override def isShared: Boolean = false
  }

  case object FirstTouch extends Attribution {
    override def isShared: Boolean = false
  }

  /** Each touch has a share by its weight. There are `n` touches; touch `i` is `ago(i)` microseconds from the event. */
  sealed trait Shared extends Attribution {
    override def isShared: Boolean = true

    /** @return zero or more; the weights of all touches aren't all zero */
    protected def weight(n: Int, touch: Int, ago: Int => Long): Double

    /** The weights of all touches. */
    private[examples] def sum(n: Int, ago: Int => Long): Double = {
      var sum = 0.0
      var i = 0
      while (i < n) {
        sum += weight(n, i, ago)
        i += 1
      }
      sum
    }

    /** The credit of the last touch, in billionths, including the rounding remainder. */
    private[examples] def last(sum: Double, n: Int, ago: Int => Long): Long = {
      var last = Whole
      var i = 0
      while (i < n - 1) {
        last -= rounded(weight(n, i, ago), sum)
        i += 1
      }
      last
    }

    /** The credit of one of the touches, in billionths. */
    private[examples] def share(sum: Double, last: Long, n: Int, mine: Int, ago: Int => Long): Long =
      if (mine < n - 1) rounded(weight(n, mine, ago), sum) else last

    private def rounded(weight: Double, sum: Double): Long = (weight / sum * Whole).toLong
  }

  case object Linear extends Shared {
    override protected def weight(n: Int, touch: Int, ago: Int => Long): Double = 1.0
    override private[examples] def sum(n: Int, ago: Int => Long): Double = n.toDouble
    override private[examples] def last(sum: Double, n: Int, ago: Int => Long): Long =
      Whole - Whole / n * (n - 1)
    override private[examples] def share(sum: Double, last: Long, n: Int, mine: Int, ago: Int => Long): Long =
      if (mine < n - 1) Whole / n else last
  }

  /** A touch weighs half as much as one that is nearer to the event by `halfLife` microseconds. */
  final case class TimeDecay(halfLife: Long) extends Shared {
    // Relative to the nearest touch: otherwise all weights of a long window would be zero. Same bits on each machine.
    override protected def weight(n: Int, touch: Int, ago: Int => Long): Double = {
      val nearest = Math.min(ago(0), ago(n - 1))
      StrictMath.pow(2.0, -(ago(touch) - nearest).toDouble / halfLife)
    }
  }

  /** The first and the last touch have a fixed weight, and those between them share one. */
  final case class Position(first: Double, middle: Double, last: Double) extends Shared {
    override protected def weight(n: Int, touch: Int, ago: Int => Long): Double =
      if (n == 1) 1.0
      else if (n == 2 && first + last == 0) 1.0
      else if (touch == 0) first
      else if (touch == n - 1) last
      else middle / (n - 2)
  }
}
