package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.checkpointing.{OffsetSeq, OffsetSeqMetadata}

/** What a batch's entry in Spark's offset log has beside the offsets. */
private[tailrace] object OffsetEntry {

  def metadata(entry: OffsetSeq): Option[OffsetSeqMetadata] = entry.metadata

  def withConf(metadata: OffsetSeqMetadata, conf: Map[String, String]): OffsetSeqMetadata =
    metadata.copy(conf = conf)
}
