package io.tailrace.sync

import java.util.Arrays

import io.tailrace.state.{RowBuffer, RowLayout, RowSort}

/** The right rows that a left row can join: those in memory and those of the state. Left rows come by key, and of a key by
  * time.
  */
private[sync] final class RightRows(
    settings: SyncSettings,
    newRight: NewRight,
    heldRight: HeldRight,
    val found: FoundRows,
    spare: SpareRight
) extends AutoCloseable {
  private val range = new JoinRange(settings)

  /** Takes the right rows that the left row joins, into [[found]]. The rows of its key are read once, for the first left row
    * of the key.
    */
  def take(left: ReleasedRows): Unit = {
    val (base, at) = (left.base, left.at)
    range.around(RowLayout.time(base, at))
    found.clear()
    if (left.isFirst) {
      spare.clear()
      newRight.take(left.keyPrefix, base, at, range, found, spare)
      heldRight.take(base, at, range, found, spare)
    } else if (spare.isOverflown) {
      newRight.takeAgain(range, found)
      heldRight.takeAgain(base, at, range, found)
    } else if (!spare.isEmpty) spare.take(range, found, newRight, heldRight)
  }

  /** Whether the key has had right rows that are out of reach. */
  def hasTooFar: Boolean = spare.hasSeen

  /** No more left rows come. */
  def endTaking(): Unit = heldRight.endTaking()

  override def close(): Unit = {
    heldRight.close()
    found.close()
    spare.close()
  }
}

/** The right rows that are in memory when a batch's left rows are decided: those that the batch has read, and those that
  * it carries forward. Sorted by key once, for the matching and for the run that those which are left go into.
  */
private[sync] final class NewRight(rows: RowBuffer) {
  private var order = new Array[Int](0)
  private var gone = new Array[Boolean](0) // by row number
  private var position = 0
  private var keyStart = 0

  /** All are in the buffer. */
  def start(): Unit = {
    order = RowSort.byKeyTimeAndSeq(rows)
    gone = new Array[Boolean](order.length)
  }

  /** Has the rows of a key that the first left row of it joins taken. Keys must come in ascending order.
    *
    * @param base  a row with the key
    * @param found gets the rows
    * @param spare those that are too young for it, and may be for a later left row
    */
  def take(
      keyPrefix: Long,
      base: AnyRef,
      at: Long,
      range: JoinRange,
      found: FoundRows,
      spare: SpareRight
  ): Unit = {
    while (position < order.length && compare(order(position), keyPrefix, base, at) < 0) position += 1
    keyStart = position
    while (position < order.length && compare(order(position), keyPrefix, base, at) == 0) {
      val row = order(position)
      val time = rows.time(row)
      if (range.has(time)) {
        found.add(rows.base(row), rows.at(row))
        gone(row) = true
      } else spare.addNew(rows.base(row), rows.at(row), row, range)
      position += 1
    }
  }

  /** The same for a later left row of the key: all that nobody has taken are looked at again. */
  def takeAgain(range: JoinRange, found: FoundRows): Unit = {
    var i = keyStart
    while (i < position) {
      val row = order(i)
      if (!gone(row) && range.has(rows.time(row))) {
        found.add(rows.base(row), rows.at(row))
        gone(row) = true
      }
      i += 1
    }
  }

  /** Has one row taken, by its number. */
  def takeRow(row: Int): Unit = gone(row) = true

  private def compare(row: Int, keyPrefix: Long, base: AnyRef, at: Long): Int = {
    val byPrefix = java.lang.Long.compareUnsigned(rows.keyPrefix(row), keyPrefix)
    if (byPrefix != 0) byPrefix else RowLayout.compareKeysBeyondPrefix(rows.base(row), rows.at(row), base, at)
  }

  /** The numbers of the rows that nobody has taken, up to `through` or after it, in the order of key, time and sequence
    * number.
    */
  def rest(through: Long, after: Boolean): Array[Int] = {
    val kept = new Array[Int](order.length)
    var count = 0
    var i = 0
    while (i < order.length) {
      val row = order(i)
      if (!gone(row) && (rows.time(row) > through) == after) {
        kept(count) = row
        count += 1
      }
      i += 1
    }
    if (count == kept.length) kept else Arrays.copyOf(kept, count)
  }
}
