package io.tailrace.label

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.JoinMetrics

/** The metrics of the label join, beside those of any join. */
object LabelMetrics {
  val LateLeftRows = "lateLeftRows"
  val LateLeftRowsAccepted = "lateLeftRowsAccepted"
  val LateRightRows = "lateRightRows"
  val LateRightRowsAccepted = "lateRightRowsAccepted"
  val UnmatchedRightRows = "unmatchedRightRows"
  val FlushedByIdleTimeout = "flushedByIdleTimeout"
  val RowsAfterFlush = "rowsAfterFlush"
  val VersionsEmitted = "versionsEmitted"
  val AmendmentsEmitted = "amendmentsEmitted"
  val EmittedIncomplete = "emittedIncomplete"
  val GroupsEmitted = "groupsEmitted"
  val GroupsMatched = "groupsMatched"
  val GroupsUnmatched = "groupsUnmatched"
  val LabelsEmitted = "labelsEmitted"
  val GroupsTruncated = "groupsTruncated"
  val LabelsTruncated = "labelsTruncated"
  val MatchesDropped = "matchesDropped"
  val UnpairedRows = "unpairedRows"
  val MatchedOnArrival = "matchedOnArrival"
  val MatchedAtExpiry = "matchedAtExpiry"
  val BalancedPositives = "balancedPositives"
  val BalancedNegatives = "balancedNegatives"
  val BalancedNegativesExpected = "balancedNegativesExpected"

  private val counts = Seq(
    LateLeftRows -> "left rows behind the watermark that weren't accepted",
    LateLeftRowsAccepted -> "left rows behind the watermark that were accepted, because their windows are open",
    LateRightRows -> "right rows behind the watermark that weren't accepted",
    LateRightRowsAccepted -> "right rows behind the watermark that were accepted, for left rows that are buffered or may be amended",
    UnmatchedRightRows -> "right rows that no left row of their key and window has, with orphans",
    FlushedByIdleTimeout -> "left rows flushed by idle_timeout, before the watermark",
    RowsAfterFlush -> "right rows that may match left rows flushed by idle_timeout",
    VersionsEmitted -> "versions of left rows emitted before the final one",
    AmendmentsEmitted -> "new groups of left rows that were already emitted",
    EmittedIncomplete -> "left rows that were emitted without a stream that had stalled",
    GroupsEmitted -> "left rows that were emitted with their group",
    GroupsMatched -> "groups with a match",
    GroupsUnmatched -> "groups without a match",
    LabelsEmitted -> "right rows that were emitted, in groups or pairs",
    GroupsTruncated -> "groups that max_matches has cut",
    LabelsTruncated -> "matches that max_matches has left out",
    MatchesDropped -> "matches that one_to_one has left out",
    UnpairedRows -> "rows that have left without a partner, with one_to_one",
    MatchedOnArrival -> "matches found when the later row arrived",
    MatchedAtExpiry -> "matches found when the left row expired"
  )

  /** Only examples whose negatives are sampled at a ratio have these. */
  private val balanced = Seq(
    BalancedPositives -> "examples with an event of a label of the sample's ratio",
    BalancedNegatives -> "examples without an event of any of these labels, before the sample",
    BalancedNegativesExpected -> "negatives that the sample keeps on average, by the rates of the partitions"
  )
  val AmendableBytes = "amendableBytes"

  private val sizes = Seq(
    JoinMetrics.JoinedStoreBytes -> "bytes of matches in the state",
    AmendableBytes -> "bytes of left rows that were emitted and may be amended"
  )

  val names: Seq[String] = JoinMetrics.names ++ (counts ++ balanced ++ sizes).map(_._1)

  def create(context: SparkContext, areBalanced: Boolean): Map[String, SQLMetric] =
    JoinMetrics.create(context, if (areBalanced) counts ++ balanced else counts, sizes)
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
    metric(LabelMetrics.GroupsEmitted) += matched + unmatched
    metric(LabelMetrics.GroupsMatched) += matched
    metric(LabelMetrics.GroupsUnmatched) += unmatched
    metric(LabelMetrics.LabelsEmitted) += labels
    metric(LabelMetrics.GroupsTruncated) += truncated
    metric(LabelMetrics.LabelsTruncated) += leftOut
  }
}

/** Counts left rows that an idle query flushes.
  *
  * @param dueThrough left rows up to this time are emitted by the watermark
  */
private[label] final class ClosedRows(dueThrough: Long, metric: String => SQLMetric) {
  private var rows = 0L

  def add(leftTime: Long): Unit = if (leftTime > dueThrough) rows += 1
  def report(): Unit = metric(LabelMetrics.FlushedByIdleTimeout) += rows
}
