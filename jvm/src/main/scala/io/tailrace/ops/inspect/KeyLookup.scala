package io.tailrace.ops.inspect

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.unsafe.Platform

import io.tailrace.common.Side
import io.tailrace.join.{JoinCheckpoint, KeyPartitions}
import io.tailrace.state.{KeyEncoder, RowLayout, RunCursor}

/** The keys, encoded, of which a query asks for the rows in one partition.
  *
  * {{{
  *   key.user_id IN (7, 8)                     partition 1: 7 in part 0    partition 3: 7 in part 1, 8
  *   hot key 7 in two parts                    left rows of 7 are in one of both, right ones in both
  * }}}
  *
  * @param left  of left rows
  * @param right of right rows: the first parts of hot keys
  */
private[inspect] final case class KeyLookup(left: Seq[Array[Byte]], right: Seq[Array[Byte]]) {
  def of(side: Side): Seq[Array[Byte]] = side.of(left, right)
}

private[inspect] object KeyLookup {

  /** With more keys than this, all rows are read. */
  private val MostKeys = 10000

  /** The lookup in each partition, if the filters give all columns of the key. Other partitions have no
    * row of these keys.
    */
  def of(columns: StateColumns, asked: AskedRows, partitions: Int): Option[Map[Int, KeyLookup]] = {
    val wanted = columns.key.map { column =>
      if (column.name == JoinCheckpoint.Part) columns.parts.map(0 until _) else asked.keys.get(column.name)
    }
    val count =
      wanted.flatten.foldLeft(1L)((product, values) => Math.min(MostKeys + 1L, product * values.size))
    Option.when(wanted.forall(_.nonEmpty) && count <= MostKeys) {
      val types = columns.key.map(_.dataType)
      val encoder = new KeyEncoder(types.indices.toArray, types.toArray)
      val places = new KeyPartitions(types, Seq(partitions))
      val keys = wanted.flatten.foldLeft(Seq(Vector.empty[Any]))((keys, values) =>
        keys.flatMap(k => values.map(k :+ _))
      )
      val placed = keys.map { values =>
        val length = encoder.encode(new GenericInternalRow(values.toArray))
        val key = Arrays.copyOf(encoder.bytes, length)
        (places.of(key).getInt(0), key, columns.part.forall(values(_) == 0))
      }
      placed.groupBy(_._1).map { case (partition, found) =>
        val distinct = found
          .sortWith((a, b) => Arrays.compareUnsigned(a._2, b._2) < 0)
          .foldLeft(Vector.empty[(Array[Byte], Boolean)]) { case (before, (_, key, isFirst)) =>
            if (before.lastOption.exists(last => Arrays.equals(last._1, key))) before
            else before :+ (key -> isFirst)
          }
        partition -> KeyLookup(distinct.map(_._1), distinct.filter(_._2).map(_._1))
      }
    }
  }
}

/** Keys that are looked for in the sections of a side. */
private[inspect] final class SoughtKeys(sorted: Seq[Array[Byte]]) {
  private val at = Platform.BYTE_ARRAY_OFFSET.toLong

  // Rows without values, as cursors compare them.
  private val rows = sorted.map(key => RowLayout.ofKey(key, key.length)).toArray

  /** True if the row has one of the keys. */
  def has(row: RunCursor): Boolean = {
    var (low, high) = (0, rows.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      val compared = row.compareKey(rows(middle), at)
      if (compared == 0) return true
      if (compared < 0) high = middle else low = middle + 1
    }
    false
  }

  /** Goes through a section that is in the order of keys. */
  final class Walk(row: RunCursor) {
    private var next = 0

    /** Goes to the first row with one of the keys. */
    def first(): Unit = if (rows.nonEmpty) {
      row.seekKey(rows(0), at)
      settle()
    }

    /** Goes on from where the cursor is. @return whether there is a row */
    def settle(): Boolean = {
      var compared = 1
      while (isInside && { compared = row.compareKey(rows(next), at); compared != 0 })
        if (compared < 0) row.advanceTo(rows(next), at) else next += 1
      isInside
    }

    private def isInside: Boolean = row.isValid && next < rows.length
  }
}
