package io.tailrace.examples

import java.util.{Arrays, Locale}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StringType

/** The impressions of a key that are around one of them, from its group. Each impression leaves a touch among the
  * rows of labels: its time, and a hash of its content that tells it from others of that time. Impressions that
  * are equal in all columns are one touch.
  */
private[examples] final class Touches {
  private var all = new Array[Touch](16)
  private var size = 0

  def clear(): Unit = size = 0

  def add(time: Long, hash: Long): Unit = {
    if (size == all.length) all = Arrays.copyOf(all, 2 * size)
    all(size) = Touch(time, hash)
    size += 1
  }

  /** Puts them in order, when all are there. */
  def settle(): Unit = {
    Arrays.sort(all, 0, size, Touch.Order)
    var kept = 0
    var i = 0
    while (i < size) {
      if (kept == 0 || all(kept - 1) != all(i)) {
        all(kept) = all(i)
        kept += 1
      }
      i += 1
    }
    size = kept
  }

  /** The place of a touch; -1 if it isn't there.
    *
    * An impression from before a column changed its type has another hash now. It is known by its time, if no other
    * one has that.
    */
  def place(time: Long, hash: Long): Int = {
    val (from, until) = (firstFrom(time), firstFrom(time + 1))
    if (until - from == 1) from
    else (from until until).find(all(_).hash == hash).getOrElse(-1)
  }

  /** How many touches are before a time. */
  def firstFrom(time: Long): Int = {
    var low = 0
    var high = size
    while (low < high) {
      val middle = (low + high) >>> 1
      if (all(middle).time < time) low = middle + 1 else high = middle
    }
    low
  }

  def time(place: Int): Long = all(place).time
}

private final case class Touch(time: Long, hash: Long)

private object Touch {
  val Order: Ordering[Touch] = Ordering.by(touch => (touch.time, touch.hash))
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
