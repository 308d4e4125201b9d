package io.tailrace.driver

/** An operator that keeps rows from batch to batch and knows which have not come out yet. */
trait HeldWork {

  /** Its name in the query. */
  def workName: String

  /** On the driver, after the tasks of a batch: per state partition the event time of the oldest row that waits there, in
    * microseconds; none where nothing waits. Nothing at all: it can't say, and Spark's propagation says how far it is.
    */
  def oldestWaiting: Option[Map[Int, Option[Long]]]
}

/** A sink that may tell a watermark server itself how far it is. */
trait ReportingSink {
  def reports: Boolean
}
