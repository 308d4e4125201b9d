package io.tailrace.testkit

import java.util.concurrent.atomic.AtomicLong
import java.util.function.LongSupplier

import io.tailrace.driver.DriverClock

/** A clock of the driver that goes on when the test says so. */
final class ManualClock extends LongSupplier {
  private val nanos = new AtomicLong(System.nanoTime)

  override def getAsLong: Long = nanos.get

  def advance(ms: Long): Unit = nanos.addAndGet(ms * 1000000): Unit
}

object ManualClock {
  def during[T](body: ManualClock => T): T = {
    val clock = new ManualClock
    DriverClock.during(clock)(body(clock))
  }
}
