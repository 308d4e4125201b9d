package io.tailrace.join

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** The metrics of the label join, by the names that a query's progress shows. Spark's UI shows the texts. */
object JoinMetrics {
  val LateLeftRows = "lateLeftRows"
  val LateRightRows = "lateRightRows"
  val NullKeyRightRows = "nullKeyRightRows"
  val GroupsOut = "groupsOut"
  val GroupsMatched = "groupsMatched"
  val GroupsUnmatched = "groupsUnmatched"
  val LabelsOut = "labelsOut"
  val MatchedOnArrival = "matchedOnArrival"
  val MatchedAtExpiry = "matchedAtExpiry"
  val LostVersions = "lostVersions"
  val StateFiles = "stateFiles"
  val LeftStoreBytes = "leftStoreBytes"
  val RightStoreBytes = "rightStoreBytes"
  val JoinedStoreBytes = "joinedStoreBytes"
  val StateFileBytes = "stateFileBytes"

  private val counts = Seq(
    LateLeftRows -> "left rows behind the watermark",
    LateRightRows -> "right rows behind the watermark",
    NullKeyRightRows -> "right rows dropped for a null key or time",
    GroupsOut -> "left rows that came out with their group",
    GroupsMatched -> "groups with a match",
    GroupsUnmatched -> "groups without a match",
    LabelsOut -> "right rows that came out, in groups or pairs",
    MatchedOnArrival -> "matches found when the later row arrived",
    MatchedAtExpiry -> "matches found when the left row expired",
    LostVersions -> "versions of the state that were lost at a restart, over all partitions",
    StateFiles -> "files of the state"
  )
  private val sizes = Seq(
    LeftStoreBytes -> "bytes of left rows in the state",
    RightStoreBytes -> "bytes of right rows in the state",
    JoinedStoreBytes -> "bytes of matches in the state",
    StateFileBytes -> "bytes of the state's files"
  )

  val names: Seq[String] = (counts ++ sizes).map(_._1)

  def create(context: SparkContext): Map[String, SQLMetric] = create(context, counts, sizes)

  /** @param counts names with the texts of Spark's UI
    * @param sizes  the same, for metrics in bytes
    */
  def create(
      context: SparkContext,
      counts: Seq[(String, String)],
      sizes: Seq[(String, String)]
  ): Map[String, SQLMetric] =
    counts.map { case (name, text) => name -> SQLMetrics.createMetric(context, text) }.toMap ++
      sizes.map { case (name, text) => name -> SQLMetrics.createSizeMetric(context, text) }
}
