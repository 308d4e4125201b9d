package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.checkpointing.{OffsetSeq, OffsetSeqMetadata}

/** The fields of a batch's entry in Spark's offset log besides the offsets. */
private[tailrace] object OffsetEntry {

  def metadata(entry: OffsetSeq): Option[OffsetSeqMetadata] = entry.metadata

  def withConf(metadata: OffsetSeqMetadata, conf: Map[String, String]): OffsetSeqMetadata =
    metadata.copy(conf = conf)
}
