package io.tailrace.state

import java.util.Comparator

/** The order of a store's rows in a section: by time first, to find what is oldest, or by key first, to find what matches. */
sealed abstract class RowOrder(val byTime: Boolean) extends Comparator[RunCursor] {

  /** Sorts a batch's rows by time bucket, and by this order within a bucket. @return row numbers */
  private[state] def sort(rows: RowBuffer, bucketWidth: Long): Array[Int]

  /** Compares the rows of two sections. */
  final override def compare(a: RunCursor, b: RunCursor): Int =
    if (byTime) {
      val byTimeAndSeq = a.compareTimeAndSeq(b.time, b.seq)
      if (byTimeAndSeq != 0) byTimeAndSeq else a.compareKey(b.base, b.at)
    } else {
      val byKey = a.compareKey(b.base, b.at)
      if (byKey != 0) byKey else a.compareTimeAndSeq(b.time, b.seq)
    }
}

object RowOrder {

  /** By time and sequence number, for rows that come in the order of their sequence numbers. */
  case object Time extends RowOrder(byTime = true) {
    override def sort(rows: RowBuffer, bucketWidth: Long): Array[Int] = RowSort.byTime(rows)
  }

  /** The same for rows that come in any order. */
  case object TimeAndSeq extends RowOrder(byTime = true) {
    override def sort(rows: RowBuffer, bucketWidth: Long): Array[Int] = RowSort.byTimeAndSeq(rows)
  }

  /** The same where several rows have one sequence number. */
  case object TimeSeqAndKey extends RowOrder(byTime = true) {
    override def sort(rows: RowBuffer, bucketWidth: Long): Array[Int] = RowSort.byTimeSeqAndKey(rows)
  }

  /** By key, time and sequence number, for rows that come in the order of their sequence numbers. */
  case object Key extends RowOrder(byTime = false) {
    override def sort(rows: RowBuffer, bucketWidth: Long): Array[Int] =
      RowSort.byBucketAndKey(rows, bucketWidth)
  }

  /** The same for rows that come in any order. */
  case object KeyTimeAndSeq extends RowOrder(byTime = false) {
    override def sort(rows: RowBuffer, bucketWidth: Long): Array[Int] =
      RowSort.thenByBucket(rows, RowSort.byKeyTimeAndSeq(rows), bucketWidth)
  }
}
