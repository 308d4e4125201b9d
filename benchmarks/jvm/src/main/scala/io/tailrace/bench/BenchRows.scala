package io.tailrace.bench

import java.io.File
import java.nio.file.{Files, Path}
import java.util.SplittableRandom
import java.util.concurrent.TimeUnit.MINUTES

import org.apache.hadoop.fs.FileUtil
import org.apache.spark.sql.tailrace.BenchMemory
import org.apache.spark.unsafe.Platform

import io.tailrace.state.{
  LiveSection,
  LocalRun,
  RowBuffer,
  RowMemory,
  RunWriter,
  Section,
  SortedRows,
  StoreKind
}

/** Rows in the state's own form, the same ones in every run: what the benchmarks of the engine work on. */
object BenchRows {

  /** Microseconds: the join window of the feature-label workload, and its buckets. */
  val Window: Long = MINUTES.toMicros(30)
  val BucketWidth: Long = Window / 4
  val Start: Long = 1700000000000000L

  private val Seed = 7L

  def newBuffer(): RowBuffer = new RowBuffer(new RowMemory(BenchMemory.newTaskMemoryManager()))

  /** Appends rows with random keys and bytes, and times that go up in equal steps from `from`.
    *
    * @param keys     distinct keys
    * @param keyBytes length of a key, 8 or more: longer ones begin with the same bytes, the worst case of the radix sort
    * @param firstSeq sequence number of the first row, and what the random numbers depend on
    * @param shuffled whether times come out of order by up to a sixtieth of `span`, as rows that arrive with a lag do
    */
  def append(
      into: RowBuffer,
      rows: Int,
      keys: Int,
      keyBytes: Int = 8,
      valueBytes: Int = 100,
      from: Long = Start,
      span: Long = Window,
      firstSeq: Long = 0,
      shuffled: Boolean = true
  ): Unit = {
    val random = new SplittableRandom(Seed + firstSeq)
    val key = new Array[Byte](keyBytes)
    val value = new Array[Byte](valueBytes)
    val lag = if (shuffled) Math.max(1L, span / 60) else 1L
    var i = 0
    while (i < rows) {
      putLong(key, keyBytes - 8, random.nextInt(keys).toLong)
      random.nextBytes(value)
      val time = from + span * i / rows + random.nextLong(lag)
      into.append(key, keyBytes, time, firstSeq + i, value, Platform.BYTE_ARRAY_OFFSET.toLong, valueBytes)
      i += 1
    }
  }

  private def putLong(into: Array[Byte], at: Int, value: Long): Unit = {
    var i = 0
    while (i < 8) {
      into(at + i) = (value >>> (56 - 8 * i)).toByte
      i += 1
    }
  }

  /** Writes rows as a run and opens it. It stays in use until it is released. */
  def writeRun(
      file: Path,
      kind: StoreKind,
      rows: RowBuffer,
      bucketWidth: Long = BucketWidth
  ): Seq[LiveSection] = {
    val sections = writeTo(file.toFile, kind, rows, bucketWidth)
    val run = new LocalRun(file.getFileName.toString, file.toFile)
    run.acquire()
    sections.map(new LiveSection(run, _))
  }

  /** Sorts and writes rows as a batch does. */
  def writeTo(file: File, kind: StoreKind, rows: RowBuffer, bucketWidth: Long = BucketWidth): Seq[Section] = {
    val writer = new RunWriter(file)
    try {
      SortedRows.all(kind, rows, bucketWidth).writeTo(writer)
      writer.finish()
      writer.sections
    } finally writer.close()
  }

  def newDirectory(): Path = Files.createTempDirectory("tailrace-bench-")

  /** Files that another thread still makes or deletes there may stay. */
  def deleteDirectory(directory: Path): Unit = FileUtil.fullyDelete(directory.toFile): Unit
}
