package io.tailrace.testkit

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.tailrace.RunClock

/** The clock of the queries that a test starts with it. Durations pass when the test says so. */
final class ManualClock extends RunClock {
  private val passed = new AtomicLong(RunClock.System.nanos)

  override def nanos: Long = passed.get
  override def wallMs: Long = RunClock.System.wallMs

  def advance(ms: Long): Unit = passed.addAndGet(ms * 1000000): Unit
}
