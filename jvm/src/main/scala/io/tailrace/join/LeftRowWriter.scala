package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.{UnsafeArrayData, UnsafeRow}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.bitset.BitSetMethods

import io.tailrace.state.RowMemory

/** Writes rows that have the left columns and those that a join adds. Left columns are copied once, as their
  * bytes in the state. They are never decoded.
  *
  * {{{
  *   null bits | a word a left column | a word an added column || bytes of left columns | those of added ones
  *               └ offsets of those longer than a word: moved by what stands between
  * }}}
  */
abstract class LeftRowWriter(columns: JoinColumns, memory: RowMemory) extends AutoCloseable {
  import LeftRowWriter._

  private val leftFields = columns.left.size
  private val leftBits = UnsafeRow.calculateBitSetWidthInBytes(leftFields)
  private val leftFixed = leftBits + 8 * leftFields
  // The places of the offsets of columns that are longer than a word.
  private val moving: Array[Int] = columns.left.indices
    .filterNot(i => UnsafeRow.isFixedLength(columns.left(i).dataType))
    .map(8 * _)
    .toArray

  private val fields = leftFields + columns.added.size
  private val bits = UnsafeRow.calculateBitSetWidthInBytes(fields)
  private val fixed = bits + 8 * fields

  private val row = new UnsafeRow(fields)
  private var buffer = new Array[Byte](1024)
  private var reserved = 0L

  // The array that is being written: its begin, the size of its null bits, and the place of the next element.
  private var array = 0
  private var words = 0
  private var next = 0

  /** Where the bytes of added columns begin. */
  protected final def restAt(left: UnsafeRow): Int = fixed + left.getSizeInBytes - leftFixed

  /** Makes room for a row. */
  protected final def ensure(length: Int): Unit = if (buffer.length < length) {
    if (length <= Small) buffer = new Array[Byte](2 * length)
    else {
      // Gives the memory of the old buffer back first: nothing of it is needed.
      close()
      val room = Math.max(length.toLong, Math.min(length + length / 8L, MostBytes)).toInt
      memory.reserve(room.toLong)
      reserved = room.toLong
      buffer = new Array[Byte](room)
    }
  }

  override def close(): Unit = {
    buffer = Array.emptyByteArray
    memory.giveBack(reserved)
    reserved = 0
  }

  protected final def put(at: Int, word: Long): Unit = Platform.putLong(buffer, Start + at, word)

  protected final def copy(from: AnyRef, offset: Long, at: Int, length: Int): Unit =
    Platform.copyMemory(from, offset, buffer, Start + at, length.toLong)

  protected final def writeLeft(left: UnsafeRow): Unit = {
    val base = left.getBaseObject
    val from = left.getBaseOffset
    put(bits - 8, 0L) // the result may have one word of null bits more than the left row
    Platform.copyMemory(base, from, buffer, Start, leftBits.toLong)
    Platform.copyMemory(base, from + leftBits, buffer, Start + bits, 8L * leftFields)
    val rest = (left.getSizeInBytes - leftFixed).toLong
    Platform.copyMemory(base, from + leftFixed, buffer, Start + fixed, rest)
    val by = (fixed - leftFixed).toLong << 32
    var i = 0
    while (i < moving.length) {
      val at = Start + bits + moving(i)
      val where = Platform.getLong(buffer, at)
      // 0 is a null without a value. A null decimal has an offset, which moves too.
      if (where != 0) Platform.putLong(buffer, at, where + by)
      i += 1
    }
  }

  /** @param column the number of the added column */
  protected final def putAdded(column: Int, word: Long): Unit = put(bits + 8 * (leftFields + column), word)

  protected final def writeNull(column: Int): Unit = {
    BitSetMethods.set(buffer, Start, leftFields + column)
    putAdded(column, 0L)
  }

  /** Begins an array of structs.
    *
    * @param at where its bytes begin, see [[LeftRowWriter.arrayBytes]]
    */
  protected final def beginArray(at: Int, size: Int): Unit = {
    array = at
    words = UnsafeArrayData.calculateHeaderPortionInBytes(size)
    next = words + 8 * size
    put(at, size.toLong)
    var word = 8
    while (word < words) {
      put(at + word, 0L)
      word += 8
    }
  }

  /** Adds a struct as the bytes that it has. */
  protected final def addElement(i: Int, base: AnyRef, offset: Long, length: Int): Unit = {
    put(array + words + 8 * i, offsetAndSize(next, length))
    copy(base, offset, array + next, length)
    next += length
  }

  /** The array is the value of an added column.
    *
    * @return where its bytes end
    */
  protected final def endArray(column: Int): Int = {
    putAdded(column, offsetAndSize(array, next))
    array + next
  }

  /** The row of this many bytes, valid until the next one. */
  protected final def written(length: Int): UnsafeRow = {
    row.pointTo(buffer, length)
    row
  }

  /** The word of a value that is longer than a word. */
  protected final def offsetAndSize(offset: Int, size: Int): Long = (offset.toLong << 32) | size.toLong
}

object LeftRowWriter {
  private val Start = Platform.BYTE_ARRAY_OFFSET.toLong

  /** Of a row. */
  val MostBytes: Long = ByteArrayMethods.MAX_ROUNDED_ARRAY_LENGTH.toLong

  /** The number of bytes an array of structs takes besides the structs. */
  def arrayBytes(size: Int): Long = 8L + (size + 63L) / 64 * 8 + 8L * size

  // A row of up to this many bytes isn't counted with Spark's memory manager.
  private val Small = 1 << 20
}
