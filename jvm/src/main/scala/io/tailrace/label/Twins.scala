package io.tailrace.label

import java.nio.ByteBuffer

import scala.collection.mutable.LongMap

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state.{RowBuffer, RowLayout}

/** Numbers left rows that nothing tells apart: those of one key, time and identity, from 0. What only one of them may
  * have goes by this number, and it doesn't matter which of them has which, as their rows are equal.
  *
  * {{{
  *   impressions of user 1      12:00 a   12:00 b   12:00 a   12:05 a
  *   number                     0         0         1         0
  * }}}
  *
  * Left rows come by time. It remembers those of one time.
  */
private[label] final class Twins {
  private val seen = new java.util.HashMap[ByteBuffer, LongMap[Int]]
  private var time = Long.MinValue

  /** For the rows of another key, if they come key by key. */
  def clear(): Unit = if (!seen.isEmpty) seen.clear()

  /** The number of the next row.
    *
    * @param key      of the row: see [[Twins.key]]
    * @param identity the ordinal of its identity. A row without one has number 0
    */
  def number(at: Long, key: ByteBuffer, row: UnsafeRow, identity: Int): Int =
    if (row.isNullAt(identity)) 0
    else {
      if (at != time) {
        clear()
        time = at
      }
      val ofKey = seen.computeIfAbsent(key, _ => new LongMap[Int])
      val before = ofKey.getOrElse(row.getLong(identity), 0)
      ofKey.update(row.getLong(identity), before + 1)
      before
    }
}

private[label] object Twins {

  /** Where rows come key by key. */
  val OneKey: ByteBuffer = ByteBuffer.wrap(Array.emptyByteArray)

  /** The key of a row. */
  def key(base: AnyRef, at: Long): ByteBuffer = ByteBuffer.wrap(RowLayout.keyBytes(base, at))
}

/** Numbers the left rows of chunks, which come one after the other. The number is kept in the row's sequence number, in
  * the place of one that nobody needs: so the row has it where it is parked or tried again, too.
  *
  * @param identity its ordinal
  * @param columns  how many columns left rows have
  */
private[label] final class ChunkTwins(identity: Int, columns: Int) {
  private val twins = new Twins
  private val row = new UnsafeRow(columns)

  /** @param chunk  its rows are in the order of time
    * @param sorted their numbers in the order of the key and the time, which stays the order
    */
  def number(chunk: RowBuffer, sorted: Array[Int]): Unit = {
    val numbers = Array.tabulate(chunk.size)(numberOf(chunk, _))
    var i = 0
    while (i < sorted.length) {
      chunk.renumber(sorted(i), (i.toLong << 32) | numbers(sorted(i)))
      i += 1
    }
  }

  private def numberOf(chunk: RowBuffer, i: Int): Int = {
    val time = chunk.time(i)
    def isAlone =
      i > 0 && chunk.time(i - 1) != time && i + 1 < chunk.size && chunk.time(i + 1) != time
    if (chunk.keyLength(i) == 0 || isAlone) 0
    else {
      row.pointTo(chunk.base(i), chunk.valueOffset(i), chunk.valueLength(i))
      twins.number(time, Twins.key(chunk.base(i), chunk.at(i)), row, identity)
    }
  }
}

private[label] object ChunkTwins {

  /** The number of a row of a chunk. */
  def of(chunk: RowBuffer, row: Int): Int = chunk.seq(row).toInt
}
