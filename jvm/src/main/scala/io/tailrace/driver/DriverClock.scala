package io.tailrace.driver

import java.util.function.LongSupplier

/** The driver's clock of durations. It doesn't jump when somebody sets the time of day. A test that would have to wait puts a
  * clock in its place that it moves itself.
  */
object DriverClock {
  private val system: LongSupplier = () => System.nanoTime
  @volatile private var source = system

  def nanos: Long = source.getAsLong

  def ms: Long = nanos / 1000000

  /** Runs `body` with another clock, in nanoseconds. */
  private[tailrace] def during[T](clock: LongSupplier)(body: => T): T = {
    source = clock
    try body
    finally source = system
  }
}
