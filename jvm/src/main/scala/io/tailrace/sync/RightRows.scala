package io.tailrace.sync

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.XXH64

import io.tailrace.common.StepwiseRows
import io.tailrace.state._

/** Finds the right rows that a left row joins, in memory and in the state. Left rows come by key, and those
  * of a key by time.
  */
private[sync] final class RightRows(
    settings: SyncSettings,
    newRight: NewRight,
    heldRight: HeldRight,
    val found: FoundRows,
    spare: SpareRight
) extends AutoCloseable {
  private val range = new JoinRange(settings)

  /** Moves the right rows that the left row joins into [[found]]. The first left row of a key reads them. */
  def take(left: OrderedRows): Unit = {
    val base = left.base
    val at = left.at
    range.around(RowLayout.time(base, at))
    found.clear()
    if (left.isFirst) {
      spare.clear()
      newRight.take(left.keyPrefix, base, at, range, found, spare)
      heldRight.take(base, at, range, left.isLast, found, spare)
    } else if (spare.isOverflown) {
      newRight.takeAgain(range, found)
      heldRight.takeAgain(base, at, range, found)
    } else if (!spare.isEmpty) spare.take(range, found, newRight, heldRight)
  }

  /** True if the key has had right rows that are out of reach. */
  def hasTooFar: Boolean = spare.hasSeen

  /** No more left rows come. */
  def endTaking(): Unit = heldRight.endTaking()

  override def close(): Unit = {
    heldRight.close()
    found.close()
    spare.close()
  }
}

/** The right rows in memory when left rows are decided: those that the batch has read, and those that it
  * carries forward. They are sorted by key once, for the matching and for the run that is written.
  */
private[sync] final class NewRight(rows: RowBuffer) {
  private var order = new Array[Int](0)
  private var gone = new Array[Boolean](0) // by row number
  private var position = 0
  private var keyStart = 0

  /** Sorts the rows. All must be in the buffer. */
  def start(): Unit = {
    order = RowSort.byKeyTimeAndSeq(rows)
    gone = new Array[Boolean](order.length)
  }

  /** Takes the rows that the first left row of a key joins. Keys must come in ascending order.
    *
    * @param base  a row with the key
    * @param found gets the rows
    * @param spare gets those that are too young for this left row, but maybe not for a later one
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

  /** Does the same for a later left row of the key: looks at all rows again that are not taken. */
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

  /** Takes one row, by its number. */
  def takeRow(row: Int): Unit = gone(row) = true

  private def compare(row: Int, keyPrefix: Long, base: AnyRef, at: Long): Int = {
    val byPrefix = java.lang.Long.compareUnsigned(rows.keyPrefix(row), keyPrefix)
    if (byPrefix != 0) byPrefix else RowLayout.compareKeysBeyondPrefix(rows.base(row), rows.at(row), base, at)
  }

  /** The rows that are not taken, up to `through` or after it, by key, time and sequence number. */
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

/** Gives the unjoined right rows of some sections, up to a time. Each is at the cursor, until the next step.
  *
  * @param isLive whether the row at the cursor hasn't left its section
  */
private[sync] final class ExpiringRight(
    sections: Seq[HeldSection],
    through: Long,
    isLive: (HeldSection, RunCursor) => Boolean
) extends StepwiseRows[RunCursor]
    with AutoCloseable {
  private val pending = sections.iterator
  private var cursor: Option[RunCursor] = None
  private var section: HeldSection = _
  private var isPassed = false

  override protected def step(): RunCursor = cursor match {
    case Some(at) if at.isValid && !isPassed =>
      isPassed = true
      if (at.time <= through && isLive(section, at)) at else null
    case Some(at) if at.isValid =>
      isPassed = false
      at.next()
      null
    case _ =>
      close()
      if (pending.hasNext) open(pending.next()) else end()
      null
  }

  private def open(held: HeldSection): Unit = {
    val opened = held.live.cursor()
    cursor = Some(opened)
    section = held
    opened.first()
  }

  override def close(): Unit = {
    cursor.foreach(_.close())
    cursor = None
  }
}

/** A hash of a row's key. The upper 48 bits count. Two keys may have the same hash. */
abstract class KeyHash {

  /** @param base see [[io.tailrace.state.RowLayout]] */
  final def of(base: AnyRef, at: Long): Long =
    ofBytes(base, RowLayout.keyAt(at), RowLayout.keyLength(base, at))

  /** The hash of a key that isn't in a row. */
  def ofBytes(base: AnyRef, at: Long, length: Int): Long
}

object KeyHash {

  /** It is never written to disk, so it may change. */
  object XX64 extends KeyHash {
    override def ofBytes(base: AnyRef, at: Long, length: Int): Long =
      XXH64.hashUnsafeBytes(base, at, length, 0L)
  }
}
