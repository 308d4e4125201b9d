package io.tailrace.sync

import org.apache.spark.unsafe.Platform

import io.tailrace.state._

/** The left rows that may come out before they are released, because the user has said that a left row has one right row
  * at the most, and a right row one left row. They stand among the released rows, and come out only with a right row:
  *
  * {{{
  *   new left rows ────────────────────────────────┐
  *   held-left: rows that may have a new right row ─┴─> by key ──┬─> found: out, and the row of the state is marked
  *                                                               └─> else: it stays where it is, or is written into held-left
  * }}}
  *
  * A row of the state has a note behind its value, which says where it is: the number of its section, and its sequence
  * number. Values of rows have whole words, and the note isn't one, so it can be told from a row without.
  *
  * {{{
  *   value (8 n bytes)  section(4)  seq(8)
  * }}}
  *
  * @param through rows up to this time are released
  * @param keep    takes a row that waits, to be written
  */
private[sync] final class EarlyLeft(
    store: TailraceStateStore,
    through: Long,
    heldLeft: BufferedLeft,
    released: OrderedRows,
    keep: (AnyRef, Long) => Unit
) {
  import EarlyLeft._

  private var noted = new Array[Byte](1024)

  /** Adds a row of the state. @param section its number, or [[EarlyLeft.Carried]] */
  def add(row: RunCursor, section: Int): Unit = {
    val (base, at) = (row.base, row.at)
    val length = RowLayout.length(base, at)
    if (length + Words > noted.length) noted = new Array[Byte](Math.toIntExact(2 * (length + Words)))
    Platform.copyMemory(base, at, noted, Start, length)
    Platform.putInt(noted, Start + length, section)
    Platform.putLong(noted, Start + length + 4, row.seq)
    RowLayout.writeValueLength(noted, Start, RowLayout.valueLength(base, at) + NoteLength)
    released.append(noted, Start)
  }

  /** The length of a row's value, without the note. */
  def valueLength(base: AnyRef, at: Long): Int = {
    val length = RowLayout.valueLength(base, at)
    if ((length & 7) == 0) length else length - NoteLength
  }

  private def hasNote(base: AnyRef, at: Long): Boolean = (RowLayout.valueLength(base, at) & 7) != 0

  private def noteAt(base: AnyRef, at: Long): Long = RowLayout.valueAt(base, at) + valueLength(base, at)

  /** A row is emitted with its right row. */
  def comesOut(base: AnyRef, at: Long): Unit = if (hasNote(base, at)) {
    val note = noteAt(base, at)
    val section = Platform.getInt(base, note)
    if (section == Carried) heldLeft.takeCarried()
    else heldLeft.take(section, Platform.getLong(base, note + 4))
  }

  /** A row has no right row. @return whether it waits; else it is released */
  def waits(base: AnyRef, at: Long): Boolean = RowLayout.time(base, at) > through && {
    if (!hasNote(base, at)) {
      // Its number may be that of its place in a local file.
      RowLayout.writeSeq(base, at, store.newSeq())
      keep(base, at)
    } else {
      val note = noteAt(base, at)
      if (Platform.getInt(base, note) == Carried) {
        RowLayout.writeSeq(base, at, Platform.getLong(base, note + 4))
        RowLayout.writeValueLength(base, at, valueLength(base, at))
        keep(base, at)
      }
    }
    true
  }
}

private[sync] object EarlyLeft {

  /** In place of a section: the row's run is dropped, and what waits of it is written again. */
  val Carried: Int = -1

  private val NoteLength = 12

  /** The bytes by which a row is longer. */
  private val Words = 16
  private val Start: Long = Platform.BYTE_ARRAY_OFFSET.toLong
}
