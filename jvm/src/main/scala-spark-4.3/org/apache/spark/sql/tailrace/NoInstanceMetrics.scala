package org.apache.spark.sql.tailrace

/** An operator without metrics of single stores: only what its tasks report would be among them. */
private[tailrace] trait NoInstanceMetrics extends StateStoreWriter
