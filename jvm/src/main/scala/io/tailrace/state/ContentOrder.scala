package io.tailrace.state

/** Rows by key and time, and rows of one key and time by their bytes, so that the row which gets a match doesn't
  * depend on arrival. Rows with one key and time are few if ids are
  * unique. If they aren't (an empty key, times in whole seconds), all rows may have one key and time.
  */
private[tailrace] class ContentOrder(rows: RowBuffer) extends IndexSort {
  override protected def compare(a: Int, b: Int): Int =
    RowLayout.compareValues(rows.base(a), rows.at(a), rows.base(b), rows.at(b))

  def sorted: Array[Int] = {
    val order = RowSort.byKeyTimeAndSeq(rows)
    var start = 0
    while (start < order.length) {
      var end = start + 1
      while (end < order.length && isTie(order(start), order(end))) end += 1
      sort(order, start, end)
      start = end
    }
    order
  }

  private def isTie(a: Int, b: Int): Boolean = rows.time(a) == rows.time(b) && !differs(a, b)

  /** True if two rows have different keys. */
  final def differs(a: Int, b: Int): Boolean =
    rows.keyPrefix(a) != rows.keyPrefix(b) || (!rows.prefixesAreKeys && rows.compareKeys(a, b) != 0)
}

private[tailrace] object ContentOrder {

  /** The same order for rows in files. Rows of equal bytes are told apart by their numbers. */
  def compare(a: RunCursor, b: RunCursor): Int = {
    val byKey = a.compareKey(b.base, b.at)
    if (byKey != 0) byKey
    else if (a.time != b.time) java.lang.Long.compare(a.time, b.time)
    else {
      val byValue = RowLayout.compareValues(a.base, a.at, b.base, b.at)
      if (byValue != 0) byValue else java.lang.Long.compare(a.seq, b.seq)
    }
  }
}
