package io.tailrace.examples

import java.util.{Arrays, Locale}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StringType

/** The impressions of a key that are around one of them, from its group. Each impression leaves a touch among the
  * rows of labels: its time, and a hash of its content that tells it from others of that time. Impressions that
  * are equal in all columns are one touch.
  */
private[examples] final class Touches {
  private var at = new Array[Long](16)
  private var hashes = new Array[Long](16)
  private var size = 0
  private var isOrdered = true
  private var settled = Array.emptyLongArray

  def clear(): Unit = {
    size = 0
    isOrdered = true
  }

  def add(time: Long, hash: Long): Unit = {
    if (size == at.length) {
      at = Arrays.copyOf(at, 2 * size)
      hashes = Arrays.copyOf(hashes, 2 * size)
    }
    // A group comes by time, and rarely by the hash where times are equal.
    if (size > 0 && (time < at(size - 1) || time == at(size - 1) && hash < hashes(size - 1)))
      isOrdered = false
    at(size) = time
    hashes(size) = hash
    size += 1
  }

  /** Puts them in order, when all are there. */
  def settle(): Unit = {
    if (!isOrdered) sort()
    var kept = 0
    var i = 0
    while (i < size) {
      if (kept == 0 || at(kept - 1) != at(i) || hashes(kept - 1) != hashes(i)) {
        at(kept) = at(i)
        hashes(kept) = hashes(i)
        kept += 1
      }
      i += 1
    }
    size = kept
    if (!Arrays.equals(at, 0, size, settled, 0, settled.length)) settled = Arrays.copyOf(at, size)
  }

  private def sort(): Unit = {
    val all = Array.tabulate(size)(i => at(i) -> hashes(i))
    scala.util.Sorting.stableSort(all)
    all.indices.foreach { i =>
      at(i) = all(i)._1
      hashes(i) = all(i)._2
    }
  }

  /** Those of all, in order. Nobody changes the array; it is the same one for the same touches as before. */
  def times: Array[Long] = settled

  /** The place of a touch; -1 if it isn't there.
    *
    * An impression from before a column changed its type has another hash now. It is known by its time, if no other
    * one has that.
    */
  def place(time: Long, hash: Long): Int = {
    val (from, until) = (firstFrom(time), firstFrom(time + 1))
    if (until - from == 1) from
    else (from until until).find(hashes(_) == hash).getOrElse(-1)
  }

  /** How many touches are before a time. */
  def firstFrom(time: Long): Int = {
    var low = 0
    var high = size
    while (low < high) {
      val middle = (low + high) >>> 1
      if (at(middle) < time) low = middle + 1 else high = middle
    }
    low
  }

  def time(place: Int): Long = at(place)
}

private[examples] object Touches {

  /** The hash of an impression. Its columns may be in any order, and one that it lacks is as one that is null, so a
    * column more changes no hash.
    *
    * @param columns all but those that are equal in the whole group
    */
  def hash(columns: Seq[Attribute]): Expression =
    columns.zipWithIndex
      .map { case (a, i) =>
        val name = nameOf(a)
        // Equal columns of one name would cancel out.
        val before = columns.take(i).count(nameOf(_) == name)
        If(IsNull(a), Literal(0L), hash(a, name.hashCode.toLong + (before.toLong << 32)))
      }
      .reduceOption[Expression](BitwiseXor(_, _))
      .getOrElse(Literal(0L))

  private def nameOf(column: Attribute): String = column.name.toLowerCase(Locale.ROOT)

  private def hash(column: Attribute, seed: Long): Expression = {
    val hashed = XxHash64(Seq(column), seed)
    // Spark hashes neither maps nor variants. A touch has the map of its own impression, in the same order.
    if (hashed.checkInputDataTypes().isSuccess) hashed
    else XxHash64(Seq(Cast(column, StringType, Some("UTC"))), seed)
  }
}
