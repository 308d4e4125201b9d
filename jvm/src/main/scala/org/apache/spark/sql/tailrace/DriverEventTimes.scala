package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeStats, EventTimeStatsAccum}

/** One event time that the driver knows, instead of those that Spark collects in tasks: the watermark may go as far as
  * this one.
  */
abstract class DriverEventTimes extends EventTimeStatsAccum {

  /** Milliseconds; none: there is none yet. Spark asks at the end of a batch, maybe several times. */
  protected def newestMs: Option[Long]

  override def value: EventTimeStats =
    newestMs.fold(EventTimeStats.zero)(ms => EventTimeStats(ms, ms, ms.toDouble, 1))

  override def isZero: Boolean = currentStats == EventTimeStats.zero
}
