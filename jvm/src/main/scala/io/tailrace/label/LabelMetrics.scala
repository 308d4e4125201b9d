package io.tailrace.label

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.JoinMetrics

/** The metrics of the label join, beside those of any join. */
object LabelMetrics {
  val LateLeftRows = "lateLeftRows"
  val LateRightRows = "lateRightRows"
  val LateRightRowsTaken = "lateRightRowsTaken"
  val ClosedBySilence = "closedBySilence"
  val RowsAfterSilence = "rowsAfterSilence"
  val VersionsOut = "versionsOut"
  val AmendmentsOut = "amendmentsOut"
  val GroupsOut = "groupsOut"
  val GroupsMatched = "groupsMatched"
  val GroupsUnmatched = "groupsUnmatched"
  val LabelsOut = "labelsOut"
  val GroupsTruncated = "groupsTruncated"
  val LabelsLeftOut = "labelsLeftOut"
  val MatchesLeftOut = "matchesLeftOut"
  val UnpairedRows = "unpairedRows"
  val MatchedOnArrival = "matchedOnArrival"
  val MatchedAtExpiry = "matchedAtExpiry"

  private val counts = Seq(
    LateLeftRows -> "left rows behind the watermark",
    LateRightRows -> "right rows behind the watermark that weren't taken",
    LateRightRowsTaken -> "right rows behind the watermark that were taken, for left rows that wait or may be amended",
    ClosedBySilence -> "left rows that came out by close_after, before the watermark",
    RowsAfterSilence -> "right rows that may match left rows that came out by close_after",
    VersionsOut -> "versions of left rows that came out before the final one",
    AmendmentsOut -> "new groups of left rows that had come out",
    GroupsOut -> "left rows that came out with their group",
    GroupsMatched -> "groups with a match",
    GroupsUnmatched -> "groups without a match",
    LabelsOut -> "right rows that came out, in groups or pairs",
    GroupsTruncated -> "groups that max_matches has cut",
    LabelsLeftOut -> "matches that max_matches has left out",
    MatchesLeftOut -> "matches that exactly_one has left out",
    UnpairedRows -> "rows that have left without a partner, with exactly_one",
    MatchedOnArrival -> "matches found when the later row arrived",
    MatchedAtExpiry -> "matches found when the left row expired"
  )
  val LeftOutBytes = "leftOutBytes"

  private val sizes = Seq(
    JoinMetrics.JoinedStoreBytes -> "bytes of matches in the state",
    LeftOutBytes -> "bytes of left rows that have come out and may be amended"
  )

  val names: Seq[String] = JoinMetrics.names ++ (counts ++ sizes).map(_._1)

  def create(context: SparkContext): Map[String, SQLMetric] = JoinMetrics.create(context, counts, sizes)
}

/** Counts groups in plain fields, row by row, and adds them to the metrics once. */
private[label] final class GroupCounts(metric: String => SQLMetric) {
  private var matched = 0L
  private var unmatched = 0L
  private var labels = 0L
  private var truncated = 0L
  private var leftOut = 0L

  /** Counts the row that was written last. */
  def add(writer: GroupWriter): Unit = {
    if (writer.lastSize > 0) matched += 1 else unmatched += 1
    labels += writer.lastSize
    if (writer.lastLeftOut > 0) truncated += 1
    leftOut += writer.lastLeftOut
  }

  def report(): Unit = {
    metric(LabelMetrics.GroupsOut) += matched + unmatched
    metric(LabelMetrics.GroupsMatched) += matched
    metric(LabelMetrics.GroupsUnmatched) += unmatched
    metric(LabelMetrics.LabelsOut) += labels
    metric(LabelMetrics.GroupsTruncated) += truncated
    metric(LabelMetrics.LabelsLeftOut) += leftOut
  }
}

/** Counts left rows that an idle query flushes.
  *
  * @param dueThrough left rows up to this time are emitted by the watermark
  */
private[label] final class ClosedRows(dueThrough: Long, metric: String => SQLMetric) {
  private var rows = 0L

  def add(leftTime: Long): Unit = if (leftTime > dueThrough) rows += 1
  def report(): Unit = metric(LabelMetrics.ClosedBySilence) += rows
}
