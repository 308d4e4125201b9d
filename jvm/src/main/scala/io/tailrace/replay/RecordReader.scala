package io.tailrace.replay

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
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

  /** Rows whose metadata has no tag. Other keys may be mistaken for such metadata. */
  var untagged = 0L

  /** Rows whose key has the length of metadata but isn't metadata. */
  var doubtful = 0L

  /** @return false if the row has no valid metadata */
  def read(row: UnsafeRow): Boolean
}

object MetadataReader {

  /** @param ordinals one, of a binary column, or three: of producer id, partition and offset */
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

/** Small numbers for the partitions of topics that origins are read from. A table of marks has many origins
  * and few such partitions.
  */
private[tailrace] final class Homes {
  private val names = mutable.ArrayBuffer.empty[String]
  private val numbers = mutable.HashMap.empty[String, Int]

  def size: Int = names.size

  /** @param home the number in a table's entry; negative if it is unknown */
  def name(home: Int): Option[String] = Option.when(home >= 0)(names(home))

  /** @return -1 if there is none of this name */
  def find(name: String): Int = numbers.getOrElse(name, Homes.Unknown)

  /** The number of this name. A new name gets a new number. */
  def of(name: String): Int = numbers.getOrElseUpdate(
    name, {
      names += name
      names.size - 1
    }
  )

  def copy(): Homes = {
    val same = new Homes
    names.foreach(same.of)
    same
  }
}

private[replay] object Homes {

  /** The home of a mark that an early version has written. */
  val Unknown: Int = -1
}

/** Notifies a task of the partition that its rows are read from, whenever that changes.
  *
  * @param columns that name the partition
  * @param oneOnly whether all rows of the task are of one partition, as when a task reads one partition of
  *                Kafka
  */
private[replay] final class RecordHomes(columns: Seq[Attribute], all: Seq[Attribute], oneOnly: Boolean)(
    enter: String => Unit
) {
  private lazy val ordering = RowOrdering.create(columns.map(SortOrder(_, Ascending)), all)
  private val fields = columns.map(BindReferences.bindReference[Expression](_, all))
  private var current: UnsafeRow = _

  def of(row: UnsafeRow): Unit =
    if (current == null || (!oneOnly && ordering.compare(current, row) != 0)) {
      current = row.copy()
      enter(fields.map(text(_, current)).mkString("/"))
    }

  /** Two values never have the same text, and neither have two lists of values. */
  private def text(field: Expression, row: InternalRow): String = (field.eval(row), field.dataType) match {
    case (null, _) => "\\N"
    case (bytes: Array[Byte], _) => java.util.HexFormat.of.formatHex(bytes)
    case (value, dataType) =>
      val words = Cast(Literal(value, dataType), StringType, Some("UTC")).eval().toString
      words.replace("\\", "\\\\").replace("/", "\\/")
  }
}

/** The time of a record, for [[MarkTable.see]].
  *
  * @param ordinal  of a timestamp column, or -1 for the time of the batch
  * @param batchMs  the time of the batch
  * @param newestMs the latest time of any record before the batch, which is the time of a record without an
  *                 event time
  */
final class RecordClock(ordinal: Int, batchMs: Long, newestMs: Long) {

  /** In ms. Never later than the batch: otherwise one clock far in the future would make all other origins be
    * forgotten.
    */
  def timeMs(row: UnsafeRow): Long =
    if (ordinal < 0) batchMs
    else if (row.isNullAt(ordinal)) newestMs
    else Math.min(batchMs, Math.floorDiv(row.getLong(ordinal), 1000L))
}
