package io.tailrace.state

import java.util.Arrays

/** Rows of a buffer in the order of a store, by time bucket, ready to be written into a run.
  *
  * @param order       row numbers; other rows are left out
  * @param bucketWidth in the unit of the rows' times
  * @param keysOnly    whether the rows are written without their values
  */
final class SortedRows private (
    val kind: StoreKind,
    val rows: RowBuffer,
    val order: Array[Int],
    val bucketWidth: Long,
    val keysOnly: Boolean = false
) {
  def isEmpty: Boolean = order.length == 0

  def bucket(position: Int): Long = Math.floorDiv(rows.time(order(position)), bucketWidth)

  /** Writes the rows into a run, a section per time bucket. Stores must come in ascending order of id. */
  def writeTo(writer: RunWriter): Unit = {
    var i = 0
    while (i < order.length) {
      val section = bucket(i)
      writer.begin(kind, section)
      while (i < order.length && bucket(i) == section) {
        if (keysOnly) writer.appendKey(rows.base(order(i)), rows.at(order(i)))
        else writer.append(rows.base(order(i)), rows.at(order(i)))
        i += 1
      }
      writer.end()
    }
  }
}

object SortedRows {

  /** Buckets of one store in one run. */
  private val MostBuckets = 64

  /** All rows of a buffer.
    *
    * @param leastBucketWidth a batch that spans a long time gets wider buckets, so that its sections are not
    *                         too many. A bucket has a meaning in its run only
    * @param rowsPerBucket    few rows get wider buckets too, so that a bucket has at least this many rows on average
    */
  def all(kind: StoreKind, rows: RowBuffer, leastBucketWidth: Long, rowsPerBucket: Int = 1): SortedRows = {
    val width = if (rows.isEmpty) leastBucketWidth else widthFor(rows, null, leastBucketWidth, rowsPerBucket)
    new SortedRows(kind, rows, sorted(rows, kind.order, width), width)
  }

  /** Row numbers by time bucket, and in an order within a bucket. */
  private def sorted(rows: RowBuffer, order: RowOrder, bucketWidth: Long): Array[Int] = order match {
    // Time first is bucket first.
    case RowOrder.Time => RowSort.byTime(rows)
    case RowOrder.TimeAndSeq => RowSort.byTimeAndSeq(rows)
    case RowOrder.TimeSeqAndKey => RowSort.byTimeSeqAndKey(rows)
    case RowOrder.Key => RowSort.byBucketAndKey(rows, bucketWidth)
    case RowOrder.KeyTimeAndSeq => RowSort.thenByBucket(rows, RowSort.byKeyTimeAndSeq(rows), bucketWidth)
  }

  /** The rows of a buffer that `chosen` accepts by their number. */
  def some(kind: StoreKind, rows: RowBuffer, leastBucketWidth: Long, chosen: Int => Boolean): SortedRows = {
    val sorted = all(kind, rows, leastBucketWidth)
    val order = sorted.order
    var count = 0
    var i = 0
    while (i < order.length) {
      if (chosen(order(i))) {
        order(count) = order(i)
        count += 1
      }
      i += 1
    }
    new SortedRows(kind, rows, Arrays.copyOf(order, count), sorted.bucketWidth)
  }

  /** The rows that have a key, without their values. Copies are not made: there may be no memory for them. */
  def keys(kind: StoreKind, rows: RowBuffer, leastBucketWidth: Long): SortedRows = {
    val byKey = RowSort.byKey(rows)
    // Empty keys come before all others.
    var empty = 0
    while (empty < byKey.length && rows.keyLength(byKey(empty)) == 0) empty += 1
    val sorted = ofSorted(kind, rows, Arrays.copyOfRange(byKey, empty, byKey.length), leastBucketWidth)
    new SortedRows(kind, rows, sorted.order, sorted.bucketWidth, keysOnly = true)
  }

  /** Some rows of a key-sorted store, by key, time and sequence number. */
  def ofSorted(
      kind: StoreKind,
      rows: RowBuffer,
      byKey: Array[Int],
      leastBucketWidth: Long,
      rowsPerBucket: Int = 1
  ): SortedRows = {
    require(!kind.timeSorted, s"${kind.name} isn't sorted by key")
    if (byKey.length == 0) new SortedRows(kind, rows, byKey, leastBucketWidth)
    else {
      val width = widthFor(rows, byKey, leastBucketWidth, rowsPerBucket)
      new SortedRows(kind, rows, RowSort.thenByBucket(rows, byKey, width), width)
    }
  }

  /** @param chosen null: all rows */
  private def widthFor(rows: RowBuffer, chosen: Array[Int], least: Long, rowsPerBucket: Int): Long = {
    var earliest = Long.MaxValue
    var latest = Long.MinValue
    val count = if (chosen == null) rows.size else chosen.length
    var i = 0
    while (i < count) {
      val time = rows.time(if (chosen == null) i else chosen(i))
      earliest = Math.min(earliest, time)
      latest = Math.max(latest, time)
      i += 1
    }
    // A span of n widths touches n + 1 buckets, and times lie on both sides of zero.
    val most = (if (rowsPerBucket <= 1) MostBuckets - 1
                else Math.max(1, Math.min(MostBuckets - 1, count / rowsPerBucket))).toLong
    Math.max(least, Math.floorDiv(latest, most) - Math.floorDiv(earliest, most) + 1)
  }
}
