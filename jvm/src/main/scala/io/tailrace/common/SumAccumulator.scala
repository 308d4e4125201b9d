package io.tailrace.common

import org.apache.spark.util.AccumulatorV2

/** What can be added up, in any order. */
trait Sum[T] {
  def +(other: T): T
}

/** Brings the sums of tasks to the driver.
  *
  * @param zero what nothing adds up to
  */
final class SumAccumulator[T <: Sum[T]](zero: T) extends AccumulatorV2[T, T] {
  private var sum = zero

  override def isZero: Boolean = sum == zero
  override def reset(): Unit = sum = zero
  override def add(more: T): Unit = sum += more
  override def merge(other: AccumulatorV2[T, T]): Unit = sum += other.value
  override def value: T = sum

  override def copy(): SumAccumulator[T] = {
    val same = new SumAccumulator(zero)
    same.sum = sum
    same
  }
}
