package org.apache.spark.sql.tailrace

import java.io.InputStream

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.execution.datasources.v2.state.{StateSourceOptions, StateTable}
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CommitLog,
  CommitMetadataBase,
  OffsetSeqBase,
  OffsetSeqLog,
  OffsetSeqMetadata,
  OffsetSeqMetadataBase,
  OffsetSeqMetadataV2
}
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state.{
  KeyStateEncoderSpec,
  OperatorStateMetadata,
  OperatorStateMetadataReader,
  StateStoreConf,
  StateStoreMetadata
}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Reads Spark's own files in a checkpoint. Writes nothing, not even a directory. */
private[tailrace] object CheckpointFormats {

  def commit(in: InputStream): CommitMetadataBase = CommitLog.readCommitMetadata(in)

  /** @param directory of the operator's state
    * @param format    1: one file, 2: one for each of some batches
    */
  def operator(
      directory: Path,
      conf: Configuration,
      format: Int,
      batch: Long
  ): Option[OperatorStateMetadata] =
    OperatorStateMetadataReader
      .createReader(directory, conf, format, batch, createMetadataDir = false)
      .read()

  def stores(metadata: OperatorStateMetadata): Seq[StateStoreMetadata] = metadata.stateStoresMetadata.toSeq

  def offsets(session: SparkSession, root: String): OffsetSeqLog =
    new StreamingQueryCheckpointMetadata(session, root, true).offsetLog
}

/** The fields of a batch's entry in Spark's offset log besides the offsets. */
private[tailrace] object OffsetEntry {

  def metadata(entry: OffsetSeqBase): Option[OffsetSeqMetadataBase] = entry.metadataOpt

  def withConf(metadata: OffsetSeqMetadataBase, conf: Map[String, String]): OffsetSeqMetadataBase =
    metadata match {
      case one: OffsetSeqMetadata => one.copy(conf = conf)
      case two: OffsetSeqMetadataV2 => two.copy(conf = conf)
      case other => throw new IllegalStateException(s"a batch has metadata of version ${other.version}")
    }
}

/** Spark's table of a store that has one column family, in a given number of partitions.
  */
private[tailrace] abstract class OneFamilyTable(
    session: SparkSession,
    schema: StructType,
    source: StateSourceOptions,
    conf: StateStoreConf,
    partitions: Int,
    keys: KeyStateEncoderSpec
) extends StateTable(session, schema, source, conf, partitions, keys, None, None, None, None) {
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new ScanOfPartitions(super.newScanBuilder(options), partitions)
}
