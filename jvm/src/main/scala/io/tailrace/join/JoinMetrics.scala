package io.tailrace.join

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** The metrics that any streaming join has, by the names that a query's progress shows. Spark's UI shows the texts. */
object JoinMetrics {
  val NullKeyRightRows = "nullKeyRightRows"
  val LostVersions = "lostVersions"
  val StateFiles = "stateFiles"
  val LeftStoreBytes = "leftStoreBytes"
  val RightStoreBytes = "rightStoreBytes"
  val StateFileBytes = "stateFileBytes"

  /** Each kind of join keeps something else of rows that it has joined, and has a text of its own. */
  val JoinedStoreBytes = "joinedStoreBytes"

  private val counts = Seq(
    NullKeyRightRows -> "right rows dropped for a null key or time",
    LostVersions -> "versions of the state that were lost at a restart, over all partitions",
    StateFiles -> "files of the state"
  )
  private val sizes = Seq(
    LeftStoreBytes -> "bytes of left rows in the state",
    RightStoreBytes -> "bytes of right rows in the state",
    StateFileBytes -> "bytes of the state's files"
  )

  val names: Seq[String] = (counts ++ sizes).map(_._1)

  /** These metrics, and further ones of one kind of join.
    *
    * @param moreCounts names with the texts of Spark's UI
    * @param moreSizes  the same, for metrics in bytes
    */
  def create(
      context: SparkContext,
      moreCounts: Seq[(String, String)],
      moreSizes: Seq[(String, String)]
  ): Map[String, SQLMetric] =
    (counts ++ moreCounts).map { case (name, text) =>
      name -> SQLMetrics.createMetric(context, text)
    }.toMap ++
      (sizes ++ moreSizes).map { case (name, text) => name -> SQLMetrics.createSizeMetric(context, text) }
}
