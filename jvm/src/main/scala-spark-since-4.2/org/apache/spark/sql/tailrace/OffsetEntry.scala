package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.checkpointing.{
  OffsetSeqBase,
  OffsetSeqMetadata,
  OffsetSeqMetadataBase,
  OffsetSeqMetadataV2
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
