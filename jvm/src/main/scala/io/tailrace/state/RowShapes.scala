package io.tailrace.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** The schemas that rows of an operator's state have had. They are numbered from 0, and each section says with
  * which its rows were written. The query changes its columns between two runs, so one number is the newest in
  * all of a run:
  *
  * {{{
  *   run of version 7   written with schema 0: (user, price INT)            ──┐ read by cursors
  *   run of version 8   written with schema 1: (user, price BIGINT, city)   ──┴──> (user, price BIGINT, city)
  * }}}
  */
trait RowShapes extends Serializable {

  /** The number of the schema that rows are written with. */
  def newest: Int

  /** Converts values of a section to the newest schema, in the calling thread. Null if the values are the same.
    */
  def change(section: Section): ValueChange
}

object RowShapes {

  /** Rows are taken as they are. */
  case object AsWritten extends RowShapes {
    override val newest = 0
    override def change(section: Section): ValueChange = null
  }

  /** All rows have one schema. */
  case object One extends RowShapes {
    override val newest = 0
    override def change(section: Section): ValueChange =
      if (section.schema == newest) null else throw ValueChange.unknown(section, 1)
  }
}

/** Makes a value of the newest schema of one of an earlier schema. */
trait ValueChange {

  /** @return valid until the next call
    * @throws ValueChange.UnfitException if the bytes aren't a row of the earlier schema
    */
  def apply(base: AnyRef, valueAt: Long, length: Int): UnsafeRow
}

object ValueChange {

  /** @param known how many schemas the operator has had */
  def unknown(section: Section, known: Int): UnfitException =
    new UnfitException(s"it has rows of schema ${section.schema}, and the operator has had $known")

  final class UnfitException(message: String) extends RuntimeException(message)
}

/** The row at a cursor with its value in the newest schema. It is made when it is first asked for: a row whose
  * key nobody looks for costs nothing.
  */
private[state] final class ChangedRow(change: ValueChange) {
  private var bytes = new Array[Byte](256)
  private var isMade = false

  def moved(): Unit = isMade = false

  /** The row's bytes, from their beginning: see [[RowLayout]]. */
  def of(base: AnyRef, at: Long): Array[Byte] = {
    if (!isMade) make(base, at)
    bytes
  }

  private def make(base: AnyRef, at: Long): Unit = {
    val (keyLength, valueLength) = (RowLayout.keyLength(base, at), RowLayout.valueLength(base, at))
    val value = change(base, RowLayout.valueAt(base, at), valueLength)
    val length = Math.toIntExact(RowLayout.length(keyLength, value.getSizeInBytes))
    if (bytes.length < length) bytes = new Array[Byte](Math.max(length, 2 * bytes.length))
    val front = RowLayout.length(keyLength, 0)
    Platform.copyMemory(base, at, bytes, ChangedRow.Start, front)
    RowLayout.writeValueLength(bytes, ChangedRow.Start, value.getSizeInBytes)
    value.writeToMemory(bytes, ChangedRow.Start + front)
    isMade = true
  }
}

private[state] object ChangedRow {
  val Start: Long = Platform.BYTE_ARRAY_OFFSET.toLong
}
