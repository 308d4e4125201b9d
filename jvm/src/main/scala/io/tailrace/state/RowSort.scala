package io.tailrace.state

/** Stable sorts of the rows of a [[RowBuffer]]; the results are arrays of row numbers. They are radix sorts
  * on longs, 11 bits a pass, without the passes in which all rows agree. Rows in order already need no pass.
  */
object RowSort {

  /** By time. */
  def byTime(rows: RowBuffer): Array[Int] = radix(rows.timesOf, unsigned = false, identity(rows.size))

  /** By time, then by sequence number. */
  def byTimeAndSeq(rows: RowBuffer): Array[Int] =
    radix(rows.timesOf, unsigned = false, bySeq(rows, identity(rows.size)))

  /** By key, then by time. */
  def byKey(rows: RowBuffer): Array[Int] = thenByKey(rows, byTime(rows))

  /** By key, then by time, then by sequence number. */
  def byKeyTimeAndSeq(rows: RowBuffer): Array[Int] = thenByKey(rows, byTimeAndSeq(rows))

  private def bySeq(rows: RowBuffer, start: Array[Int]): Array[Int] =
    radix(ofEach(rows, i => rows.seq(i)), unsigned = false, start)

  private def thenByKey(rows: RowBuffer, start: Array[Int]): Array[Int] = {
    val order = radix(rows.prefixesOf, unsigned = true, start)
    if (!rows.prefixesAreKeys) settleLongKeys(rows, order)
    order
  }

  /** By time, then by sequence number, then by key. */
  def byTimeSeqAndKey(rows: RowBuffer): Array[Int] =
    radix(rows.timesOf, unsigned = false, bySeq(rows, byKey(rows)))

  /** By time bucket, then by key, then by time. `bucketWidth` is in the unit of the rows' times. */
  def byBucketAndKey(rows: RowBuffer, bucketWidth: Long): Array[Int] =
    thenByBucket(rows, byKey(rows), bucketWidth)

  /** Rows in some order by time bucket, those of a bucket in that order. */
  def thenByBucket(rows: RowBuffer, order: Array[Int], bucketWidth: Long): Array[Int] =
    radix(ofEach(rows, i => Math.floorDiv(rows.time(i), bucketWidth)), unsigned = false, order)

  private def ofEach(rows: RowBuffer, value: Int => Long): Array[Long] = {
    val values = new Array[Long](rows.size)
    var i = 0
    while (i < values.length) {
      values(i) = value(i)
      i += 1
    }
    values
  }

  private def identity(n: Int): Array[Int] = {
    // Not `tabulate`, which boxes each number.
    val order = new Array[Int](n)
    var i = 0
    while (i < n) {
      order(i) = i
      i += 1
    }
    order
  }

  private val BitsPerPass = 11
  private val Mask = (1 << BitsPerPass) - 1

  private def radix(values: Array[Long], unsigned: Boolean, start: Array[Int]): Array[Int] = {
    val n = start.length
    if (n < 2) return start
    val flip = if (unsigned) 0L else Long.MinValue
    var any = 0L
    var all = -1L
    var sorted = true
    var last = Long.MinValue
    var i = 0
    while (i < n) {
      val v = values(start(i))
      any |= v
      all &= v
      // As signed numbers, whatever they are compared as.
      val comparable = v ^ flip ^ Long.MinValue
      if (comparable < last) sorted = false
      last = comparable
      i += 1
    }
    if (sorted) return start
    val differing = any ^ all
    var from = start
    var to = new Array[Int](n)
    var shift = 0
    while (shift < 64) {
      if (((differing >>> shift) & Mask) != 0) {
        val counts = new Array[Int](Mask + 2)
        i = 0
        while (i < n) {
          counts((((values(from(i)) ^ flip) >>> shift) & Mask).toInt + 1) += 1
          i += 1
        }
        i = 0
        while (i <= Mask) {
          counts(i + 1) += counts(i)
          i += 1
        }
        i = 0
        while (i < n) {
          val digit = (((values(from(i)) ^ flip) >>> shift) & Mask).toInt
          to(counts(digit)) = from(i)
          counts(digit) += 1
          i += 1
        }
        val swap = from
        from = to
        to = swap
      }
      shift += BitsPerPass
    }
    from
  }

  /** Sorts each stretch of equal prefixes by the whole key where that can make a difference: the radix sort
    * saw eight bytes of the keys, padded with zeros. Short keys of different length are an empty one (a null
    * in a key column) and one of zeros ("", false, the minimum of a number's type), which must not be mixed.
    */
  private def settleLongKeys(rows: RowBuffer, order: Array[Int]): Unit = {
    // On a tie the order by time below survives.
    val byWholeKey = new IndexSort {
      override protected def compare(a: Int, b: Int): Int = rows.compareKeys(a, b)
    }
    var start = 0
    while (start < order.length) {
      val prefix = rows.keyPrefix(order(start))
      var end = start + 1
      val length = rows.keyLength(order(start))
      var unsettled = length > 8
      while (end < order.length && rows.keyPrefix(order(end)) == prefix) {
        unsettled |= rows.keyLength(order(end)) != length
        end += 1
      }
      if (unsettled) byWholeKey.sort(order, start, end)
      start = end
    }
  }
}

/** Sorts numbers of rows: a stable merge sort. Rows that are sorted already take n - 1 comparisons. */
private[tailrace] abstract class IndexSort {

  protected def compare(a: Int, b: Int): Int

  /** @param end excluded */
  final def sort(order: Array[Int], start: Int, end: Int): Unit =
    if (end - start > 1) sort(order, start, end, new Array[Int]((end - start) / 2))

  private def sort(order: Array[Int], start: Int, end: Int, scratch: Array[Int]): Unit =
    if (end - start > 1) {
      val middle = (start + end) >>> 1
      sort(order, start, middle, scratch)
      sort(order, middle, end, scratch)
      if (compare(order(middle - 1), order(middle)) > 0) merge(order, start, middle, end, scratch)
    }

  private def merge(order: Array[Int], start: Int, middle: Int, end: Int, scratch: Array[Int]): Unit = {
    val leftSize = middle - start
    System.arraycopy(order, start, scratch, 0, leftSize)
    var left = 0
    var right = middle
    var out = start
    while (left < leftSize) {
      // On a tie the left one goes first: the order below must survive.
      if (right < end && compare(scratch(left), order(right)) > 0) {
        order(out) = order(right)
        right += 1
      } else {
        order(out) = scratch(left)
        left += 1
      }
      out += 1
    }
  }
}
