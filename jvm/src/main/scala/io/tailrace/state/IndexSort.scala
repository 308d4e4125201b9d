package io.tailrace.state

/** Sorts numbers of rows: a merge sort, stable, of at most n log n comparisons, and n - 1 of what is sorted already. */
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
