package io.tailrace.state

/** Sorts the rows of a batch and writes them into a run, a section per time bucket.
  *
  * @param leastBucketWidth in microseconds; a batch that spans a long time (a backfill) gets wider buckets, so that the
  *                         number of sections stays bounded. A bucket means nothing outside its run: what has expired is
  *                         judged by the times of a section's rows.
  */
final class BatchRun(leastBucketWidth: Long, writer: RunWriter) {

  /** Adds all rows of a store. Stores must come in ascending order of id. */
  def write(kind: StoreKind, rows: RowBuffer): Unit = if (!rows.isEmpty) {
    val bucketWidth = bucketWidthFor(rows)
    val order = kind match {
      case StoreKind.LeftTimeSorted => RowSort.byTime(rows) // their sequence numbers go up as they come
      case StoreKind.JoinedIndicator => RowSort.byTimeSeqAndKey(rows)
      case StoreKind.LeftKeySorted | StoreKind.RightKeySorted => RowSort.byBucketAndKey(rows, bucketWidth)
    }
    var i = 0
    while (i < order.length) {
      val bucket = Math.floorDiv(rows.time(order(i)), bucketWidth)
      writer.begin(kind, bucket)
      while (i < order.length && Math.floorDiv(rows.time(order(i)), bucketWidth) == bucket) {
        writer.append(rows.base(order(i)), rows.at(order(i)))
        i += 1
      }
      writer.end()
    }
  }

  private def bucketWidthFor(rows: RowBuffer): Long = {
    var earliest = Long.MaxValue
    var latest = Long.MinValue
    var i = 0
    while (i < rows.size) {
      earliest = Math.min(earliest, rows.time(i))
      latest = Math.max(latest, rows.time(i))
      i += 1
    }
    // A span of n widths touches n + 1 buckets, and times lie on both sides of zero.
    val most = (BatchRun.MostBuckets - 1).toLong
    Math.max(leastBucketWidth, Math.floorDiv(latest, most) - Math.floorDiv(earliest, most) + 1)
  }
}

object BatchRun {

  /** Of one store in one run. */
  private val MostBuckets = 64
}
