package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Reads the origin and offset of a row, from one column of bytes or from three columns. */
abstract class MetadataReader {
  protected var pidRead = 0L
  protected var partitionRead = 0
  protected var offsetRead = 0L

  /** The producer id of the last row that [[read]] has found valid. */
  def pid: Long = pidRead
  def partition: Int = partitionRead
  def offset: Long = offsetRead

  /** Rows whose metadata has no tag. Other keys may be taken for such metadata. */
  var untagged = 0L

  /** Rows whose key has the length of metadata but isn't metadata. */
  var doubtful = 0L

  /** @return false if the row has no valid metadata */
  def read(row: UnsafeRow): Boolean
}

object MetadataReader {

  /** @param ordinals one, of a binary column, or three: of a producer id, a partition and an offset */
  def apply(ordinals: Array[Int]): MetadataReader =
    if (ordinals.length == 1) new OfKey(ordinals(0))
    else new OfColumns(ordinals(0), ordinals(1), ordinals(2))

  // In the byte order of the machine, to compare it in place.
  private val Tag = Integer.reverseBytes(RecordMetadata.Tag)

  private final class OfKey(ordinal: Int) extends MetadataReader {
    override def read(row: UnsafeRow): Boolean =
      !row.isNullAt(ordinal) && {
        // Read in place: an array for each row would cost as much as the filter.
        val offsetAndSize = row.getLong(ordinal)
        val size = offsetAndSize.toInt
        val base = row.getBaseObject
        val at = row.getBaseOffset + (offsetAndSize >>> 32)
        if (size == RecordMetadata.Length) readTagged(base, at)
        else size == RecordMetadata.UntaggedLength && readUntagged(base, at)
      }

    private def readTagged(base: AnyRef, at: Long): Boolean = Platform.getInt(base, at) == Tag && {
      readParts(base, at + RecordMetadata.TagLength)
      val valid = RecordMetadata.isInRange(partitionRead, offsetRead)
      if (!valid) doubtful += 1
      valid
    }

    private def readUntagged(base: AnyRef, at: Long): Boolean = {
      readParts(base, at)
      val plausible = RecordMetadata.isPlausible(partitionRead, offsetRead)
      if (plausible) untagged += 1 else doubtful += 1
      plausible
    }

    private def readParts(base: AnyRef, at: Long): Unit = {
      pidRead = java.lang.Long.reverseBytes(Platform.getLong(base, at))
      partitionRead = Integer.reverseBytes(Platform.getInt(base, at + 8))
      offsetRead = java.lang.Long.reverseBytes(Platform.getLong(base, at + 12))
    }
  }

  private final class OfColumns(pidAt: Int, partitionAt: Int, offsetAt: Int) extends MetadataReader {
    override def read(row: UnsafeRow): Boolean =
      !row.isNullAt(pidAt) && !row.isNullAt(partitionAt) && !row.isNullAt(offsetAt) && {
        pidRead = row.getLong(pidAt)
        partitionRead = row.getInt(partitionAt)
        offsetRead = row.getLong(offsetAt)
        val valid = RecordMetadata.isInRange(partitionRead, offsetRead)
        if (!valid) doubtful += 1
        valid
      }
  }
}
