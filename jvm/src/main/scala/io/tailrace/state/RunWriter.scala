package io.tailrace.state

import java.io.File
import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer

import org.rocksdb.SstFileWriter

/** Writes one run: whole stores, in the order of [[StoreKind.id]], each sorted by bucket and then as its kind says. One
  * file a batch, whatever it touches: on an object store each file costs a round trip.
  *
  * @param leastBucketWidth in microseconds; a batch that spans a long time (a backfill) gets wider buckets, so that the
  *                         number of sections stays bounded. A bucket means nothing outside its run: what has expired is
  *                         judged by the times of a section's rows.
  */
final class RunWriter(file: File, leastBucketWidth: Long) extends AutoCloseable {
  private val writer = new SstFileWriter(SstOptions.environment, SstOptions.options)
  private val written = new ArrayBuffer[Section]
  private var keyBuffer = ByteBuffer.allocateDirect(256)
  private var valueBuffer = ByteBuffer.allocateDirect(4096)
  private var key = new Array[Byte](64)
  private var value = new Array[Byte](4096)
  private var lastStore = 0

  writer.open(file.getPath)

  def sections: Seq[Section] = written.toSeq

  /** Adds all rows of a store. Stores must come in ascending order of id. */
  def write(kind: StoreKind, rows: RowBuffer): Unit = if (!rows.isEmpty) {
    require(kind.id > lastStore, s"${kind.name} after store $lastStore")
    lastStore = kind.id.toInt
    val bucketWidth = bucketWidthFor(rows)
    val order = if (kind.timeSorted) RowSort.byTime(rows) else RowSort.byBucketAndKey(rows, bucketWidth)
    var start = 0
    while (start < order.length) {
      val bucket = Math.floorDiv(rows.time(order(start)), bucketWidth)
      start = writeSection(kind, bucket, bucketWidth, rows, order, start)
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
    val most = (RunWriter.MostBuckets - 1).toLong
    Math.max(leastBucketWidth, Math.floorDiv(latest, most) - Math.floorDiv(earliest, most) + 1)
  }

  private def writeSection(
      kind: StoreKind,
      bucket: Long,
      bucketWidth: Long,
      rows: RowBuffer,
      order: Array[Int],
      start: Int
  ): Int = {
    var i = start
    var minTime = Long.MaxValue
    var maxTime = Long.MinValue
    var bytes = 0L
    while (i < order.length && Math.floorDiv(rows.time(order(i)), bucketWidth) == bucket) {
      val row = order(i)
      bytes += put(kind, bucket, rows, row)
      minTime = Math.min(minTime, rows.time(row))
      maxTime = Math.max(maxTime, rows.time(row))
      i += 1
    }
    written += Section(kind.name, bucket, (i - start).toLong, minTime, maxTime, bytes)
    i
  }

  private def put(kind: StoreKind, bucket: Long, rows: RowBuffer, row: Int): Int = {
    val keyLength = rows.keyLength(row)
    val valueLength = rows.valueLength(row)
    if (key.length < keyLength) {
      key = new Array[Byte](keyLength * 2)
      keyBuffer = ByteBuffer.allocateDirect(RunKey.FixedLength + keyLength * 2)
    }
    if (value.length < valueLength) {
      value = new Array[Byte](valueLength * 2)
      valueBuffer = ByteBuffer.allocateDirect(valueLength * 2)
    }
    rows.copyKey(row, key)
    RunKey.write(keyBuffer, kind, bucket, key, keyLength, rows.time(row), rows.seq(row))
    rows.copyValue(row, value, 0)
    valueBuffer.clear()
    valueBuffer.put(value, 0, valueLength).flip()
    writer.put(keyBuffer, valueBuffer)
    RunKey.FixedLength + keyLength + valueLength
  }

  /** Completes the file. At least one row must have been written. */
  def finish(): Unit = writer.finish()

  override def close(): Unit = writer.close()
}

object RunWriter {

  /** Of one store in one run. */
  private val MostBuckets = 64
}
