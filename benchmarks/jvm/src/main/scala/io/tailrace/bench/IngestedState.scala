package io.tailrace.bench

import java.io.File
import java.nio.file.Path

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.unsafe.Platform
import org.rocksdb._

import io.tailrace.state.{
  BlockCache,
  PageBuffer,
  RowBuffer,
  RowLayout,
  RowSort,
  RunWriter,
  SstOptions,
  StoreKind
}

/** Rows held by a RocksDB instance: what the engine would be if it didn't read its runs itself. A column family holds a
  * time bucket, so that a bucket is dropped whole; a batch is one SST file a bucket, ingested by a move.
  *
  * {{{
  *   batch ──sort──> bucket 7: SST file ──ingest──> column family "7"
  *               └─> bucket 8: SST file ──ingest──> column family "8"
  * }}}
  */
final class IngestedState(directory: Path) extends AutoCloseable {
  private val columns = new ColumnFamilyOptions(BlockCache.ofExecutor.options)
    // The other side doesn't compact within ten batches either.
    .setDisableAutoCompactions(true)
  private val byMove = new IngestExternalFileOptions().setMoveFiles(true)
  private val db = RocksDB.open(BlockCache.ofExecutor.options, directory.resolve("db").toString)
  private val buckets = mutable.LinkedHashMap.empty[Long, ColumnFamilyHandle]
  private var files = 0L

  /** Sorts a batch as [[io.tailrace.state.SortedRows]] does and writes the same pages, but a file for each bucket. */
  def add(kind: StoreKind, rows: RowBuffer, bucketWidth: Long): Unit = {
    val order = if (kind.timeSorted) RowSort.byTime(rows) else RowSort.byBucketAndKey(rows, bucketWidth)
    var i = 0
    while (i < order.length) {
      val bucket = Math.floorDiv(rows.time(order(i)), bucketWidth)
      val file = newFile()
      val writer = new RunWriter(file)
      try {
        writer.begin(kind, bucket)
        while (i < order.length && Math.floorDiv(rows.time(order(i)), bucketWidth) == bucket) {
          writer.append(rows.base(order(i)), rows.at(order(i)))
          i += 1
        }
        writer.end()
        writer.finish()
      } finally writer.close()
      db.ingestExternalFile(familyOf(bucket), Seq(file.getPath).asJava, byMove)
    }
  }

  private def newFile(): File = {
    files += 1
    directory.resolve(s"$files.sst").toFile
  }

  private def familyOf(bucket: Long): ColumnFamilyHandle =
    buckets.getOrElseUpdate(
      bucket,
      db.createColumnFamily(new ColumnFamilyDescriptor(bucket.toString.getBytes, columns))
    )

  /** @return the sum of the times of all rows */
  def sumOfTimes(): Long = {
    val page = PageBuffer.take()
    try
      buckets.values.map { family =>
        val pages = db.newIterator(family, SstOptions.read)
        try sumOfTimes(pages, page)
        finally pages.close()
      }.sum
    finally PageBuffer.giveBack(page)
  }

  private def sumOfTimes(pages: RocksIterator, page: PageBuffer): Long = {
    val start = Platform.BYTE_ARRAY_OFFSET.toLong
    var sum = 0L
    pages.seekToFirst()
    while (pages.isValid) {
      page.fromNative(buffer => pages.value(buffer))
      val base = page.bytes
      val last = start + Platform.getInt(base, start + PageBuffer.LastRowAt)
      var at = start + PageBuffer.HeaderLength
      sum += RowLayout.time(base, at)
      while (at != last) {
        at += RowLayout.length(base, at)
        sum += RowLayout.time(base, at)
      }
      pages.next()
    }
    pages.status()
    sum
  }

  /** Drops all buckets. */
  def drop(): Unit = {
    buckets.values.foreach { family =>
      db.dropColumnFamily(family)
      family.close()
    }
    buckets.clear()
  }

  override def close(): Unit = {
    drop()
    db.close()
    byMove.close()
    columns.close()
  }
}
