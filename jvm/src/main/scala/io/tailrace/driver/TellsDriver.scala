package io.tailrace.driver

import org.apache.spark.sql.execution.SparkPlan

/** An operator whose tasks tell the driver what they have seen of a micro-batch. */
trait TellsDriver extends SparkPlan {

  /** Whether the operator's tasks have run. Asked on the driver, when the sink is done with a batch. */
  def hasTold: Boolean
}

/** An operator that keeps rows from batch to batch, and knows which rows have not come out yet. */
trait HeldWork {

  /** Its name in the query. */
  def workName: String

  /** The event time of the oldest row that waits in each state partition, in microseconds; none in a partition where no row
    * waits. None at all if the operator can't say it: then Spark's propagation of watermarks says how far it is. Asked on
    * the driver, after the tasks of a batch.
    */
  def oldestWaiting: Option[Map[Int, Option[Long]]]
}

/** A sink that may report its own progress to a watermark server. */
trait ReportingSink {
  def reports: Boolean
}
