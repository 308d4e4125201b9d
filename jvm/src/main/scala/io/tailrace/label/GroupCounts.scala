package io.tailrace.label

import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.JoinMetrics

/** Counts groups in plain fields, row by row, and adds them to the metrics once. */
private[label] final class GroupCounts(metric: String => SQLMetric) {
  private var matched = 0L
  private var unmatched = 0L
  private var labels = 0L

  /** @param matches of the left row
    * @param elements of them that are in its group
    */
  def add(matches: Int, elements: Int): Unit = {
    if (matches > 0) matched += 1 else unmatched += 1
    labels += elements
  }

  def report(): Unit = {
    metric(JoinMetrics.GroupsOut) += matched + unmatched
    metric(JoinMetrics.GroupsMatched) += matched
    metric(JoinMetrics.GroupsUnmatched) += unmatched
    metric(JoinMetrics.LabelsOut) += labels
    matched = 0
    unmatched = 0
    labels = 0
  }
}
