package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Reads the origin of a row, out of one column of 20 bytes or out of three columns. */
abstract class MetadataReader {
  protected var pidRead = 0L
  protected var partitionRead = 0
  protected var offsetRead = 0L

  /** Of the last row that [[read]] has found valid. */
  def pid: Long = pidRead
  def partition: Int = partitionRead
  def offset: Long = offsetRead

  /** @return false if the row carries no valid metadata */
  def read(row: UnsafeRow): Boolean = readParts(row) && partitionRead >= 0 && offsetRead >= 0

  protected def readParts(row: UnsafeRow): Boolean
}

object MetadataReader {

  /** @param ordinals one, of a binary column, or three: of a producer id, a partition and an offset */
  def apply(ordinals: Array[Int]): MetadataReader =
    if (ordinals.length == 1) new OfKey(ordinals(0))
    else new OfColumns(ordinals(0), ordinals(1), ordinals(2))

  private final class OfKey(ordinal: Int) extends MetadataReader {
    override protected def readParts(row: UnsafeRow): Boolean =
      !row.isNullAt(ordinal) && {
        // Where it stands: an array for each row would be as much as the filter costs.
        val offsetAndSize = row.getLong(ordinal)
        offsetAndSize.toInt == RecordMetadata.Length && {
          val base = row.getBaseObject
          val at = row.getBaseOffset + (offsetAndSize >>> 32)
          pidRead = java.lang.Long.reverseBytes(Platform.getLong(base, at))
          partitionRead = Integer.reverseBytes(Platform.getInt(base, at + 8))
          offsetRead = java.lang.Long.reverseBytes(Platform.getLong(base, at + 12))
          true
        }
      }
  }

  private final class OfColumns(pidAt: Int, partitionAt: Int, offsetAt: Int) extends MetadataReader {
    override protected def readParts(row: UnsafeRow): Boolean =
      !row.isNullAt(pidAt) && !row.isNullAt(partitionAt) && !row.isNullAt(offsetAt) && {
        pidRead = row.getLong(pidAt)
        partitionRead = row.getInt(partitionAt)
        offsetRead = row.getLong(offsetAt)
        true
      }
  }
}
