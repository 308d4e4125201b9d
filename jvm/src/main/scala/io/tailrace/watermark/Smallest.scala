package io.tailrace.watermark

/** The k-th smallest of many numbers, without sorting all of them. */
object Smallest {

  /** @param values changed: put into another order
    * @param rank   0 for the smallest
    */
  def at(values: Array[Long], rank: Int): Long = {
    require(rank >= 0 && rank < values.length, s"$rank of ${values.length}")
    var from = 0
    var to = values.length - 1
    while (from < to) {
      val pivot = middle(values(from), values((from + to) >>> 1), values(to))
      var low = from
      var high = to
      while (low <= high) {
        while (values(low) < pivot) low += 1
        while (values(high) > pivot) high -= 1
        if (low <= high) {
          val other = values(low)
          values(low) = values(high)
          values(high) = other
          low += 1
          high -= 1
        }
      }
      if (rank <= high) to = high
      else if (rank >= low) from = low
      else return values(rank)
    }
    values(rank)
  }

  private def middle(a: Long, b: Long, c: Long): Long =
    Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
}
