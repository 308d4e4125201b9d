package org.apache.spark.sql.tailrace

import java.io.InputStream
import java.nio.charset.StandardCharsets.UTF_8

import scala.io.{Source => Lines}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.execution.datasources.v2.state.{StateSourceOptions, StateTable}
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Reads Spark's own files in a checkpoint. Writes nothing, not even a directory. */
private[tailrace] object CheckpointFormats {

  /** Spark itself reads only commits of the version that the session is set to. */
  def commit(in: InputStream): CommitMetadata = {
    val lines = Lines.fromInputStream(in, UTF_8.name).getLines()
    if (!lines.hasNext) throw new IllegalStateException("the file of the commit log is incomplete")
    MetadataVersionUtil.validateVersion(lines.next().trim, Newest): Unit
    CommitMetadata(if (lines.hasNext) lines.next() else "{}")
  }

  private val Newest = 2

  /** @param directory of the operator's state
    * @param format    1: one file, 2: one for each of some batches
    */
  def operator(
      directory: Path,
      conf: Configuration,
      format: Int,
      batch: Long
  ): Option[OperatorStateMetadata] = {
    // Spark's reader would make the directory of format 2.
    val isThere = format == 1 ||
      CheckpointFileManager.create(directory, conf).exists(OperatorStateMetadataV2.metadataDirPath(directory))
    if (isThere) OperatorStateMetadataReader.createReader(directory, conf, format, batch).read() else None
  }

  def stores(metadata: OperatorStateMetadata): Seq[StateStoreMetadata] = metadata match {
    case first: OperatorStateMetadataV1 => first.stateStoreInfo.toSeq
    case second: OperatorStateMetadataV2 => second.stateStoreInfo.toSeq
    case other => throw new IllegalStateException(s"operator metadata of version ${other.version}")
  }

  def offsets(session: SparkSession, root: String): OffsetSeqLog =
    new StreamingQueryCheckpointMetadata(session, root).offsetLog
}

/** The fields of a batch's entry in Spark's offset log besides the offsets. */
private[tailrace] object OffsetEntry {

  def metadata(entry: OffsetSeq): Option[OffsetSeqMetadata] = entry.metadata

  def withConf(metadata: OffsetSeqMetadata, conf: Map[String, String]): OffsetSeqMetadata =
    metadata.copy(conf = conf)
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
) extends StateTable(session, schema, source, conf, keys, None, None, None, None) {
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new ScanOfPartitions(super.newScanBuilder(options), partitions)
}
