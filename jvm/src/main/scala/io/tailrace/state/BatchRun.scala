package io.tailrace.state

/** Sorts the rows of a batch and writes them into a run, a section per time bucket.
  *
  * @param leastBucketWidth in microseconds; see [[SortedRows.all]]
  */
final class BatchRun(leastBucketWidth: Long, writer: RunWriter) {

  /** Adds all rows of a store. Stores must come in ascending order of id. */
  def write(kind: StoreKind, rows: RowBuffer): Unit =
    BatchRun.write(SortedRows.all(kind, rows, leastBucketWidth), writer)
}

object BatchRun {

  /** Adds the rows of a store. Stores must come in ascending order of id. */
  def write(sorted: SortedRows, writer: RunWriter): Unit = {
    val rows = sorted.rows
    val order = sorted.order
    var i = 0
    while (i < order.length) {
      val bucket = sorted.bucket(i)
      writer.begin(sorted.kind, bucket)
      while (i < order.length && sorted.bucket(i) == bucket) {
        if (sorted.keysOnly) writer.appendKey(rows.base(order(i)), rows.at(order(i)))
        else writer.append(rows.base(order(i)), rows.at(order(i)))
        i += 1
      }
      writer.end()
    }
  }
}
