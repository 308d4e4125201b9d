package org.apache.spark.sql.tailrace

import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.execution.datasources.v2.state.{StateSourceOptions, StateTable}
import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, StateStoreConf}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Spark's table of a store that has one column family, in a given number of partitions.
  */
private[tailrace] abstract class OneFamilyTable(
    session: SparkSession,
    schema: StructType,
    source: StateSourceOptions,
    conf: StateStoreConf,
    partitions: Int,
    keys: KeyStateEncoderSpec
) extends StateTable(session, schema, source, conf, keys, None, None, None, None) {
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new ScanOfPartitions(super.newScanBuilder(options), partitions)
}
