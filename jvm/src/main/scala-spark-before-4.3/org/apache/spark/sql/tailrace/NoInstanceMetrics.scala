package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.StateStoreInstanceMetric

/** An operator without metrics of single stores. Spark would make them for each partition of each of its own stores. */
private[tailrace] trait NoInstanceMetrics extends StateStoreWriter {
  override lazy val instanceMetrics: Map[StateStoreInstanceMetric, SQLMetric] = Map.empty
}
