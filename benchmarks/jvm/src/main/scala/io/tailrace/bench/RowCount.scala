package io.tailrace.bench

import org.openjdk.jmh.annotations._

/** Makes JMH report the time per row (`rows`) beside the time per call. */
@State(Scope.Thread)
@AuxCounters(AuxCounters.Type.OPERATIONS)
class RowCount {
  var rows = 0L

  @Setup(Level.Iteration)
  def clear(): Unit = rows = 0L
}
