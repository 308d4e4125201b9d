package io.tailrace.recursion

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.DurableFiles

private[recursion] final case class FeedbackPartition(files: Seq[String]) extends InputPartition

private[recursion] final class FeedbackReaderFactory(
    hadoopConf: Broadcast[SerializableConfiguration],
    fields: Int,
    columns: String
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val files = partition.asInstanceOf[FeedbackPartition].files
    new FeedbackReader(files, hadoopConf.value, fields, columns)
  }
}

/** Reads the rows of some files, one file after the other. */
private[recursion] final class FeedbackReader(
    files: Seq[String],
    hadoopConf: SerializableConfiguration,
    fields: Int,
    columns: String
) extends PartitionReader[InternalRow] {
  private val waiting = files.iterator
  private val row = new UnsafeRow(fields)
  private var reader: FeedbackFile.Reader = _

  override def next(): Boolean = {
    while (true) {
      if (reader == null) {
        if (!waiting.hasNext) return false
        reader = open(waiting.next())
      }
      val length = reader.next()
      if (length >= 0) {
        row.pointTo(reader.bytes, length)
        return true
      }
      close()
    }
    false
  }

  private def open(file: String): FeedbackFile.Reader = {
    val path = new Path(file)
    val neededBy = s"the micro-batch after batch ${path.getParent.getName}"
    val in = DurableFiles.in(path, hadoopConf.value).openStream(path, neededBy)
    new FeedbackFile.Reader(in, file, FeedbackLog.place(path), columns)
  }

  override def get(): InternalRow = row

  override def close(): Unit = if (reader != null) {
    reader.close()
    reader = null
  }
}
