package io.tailrace.bench

import java.lang.management.ManagementFactory
import java.nio.file.StandardOpenOption.{APPEND, CREATE}
import java.nio.file.{Files, Path, Paths}
import java.util.SplittableRandom

import org.apache.spark.sql.tailrace.BenchMemory
import org.apache.spark.unsafe.Platform
import org.rocksdb.{Statistics, TickerType}

import io.tailrace.label.SortedMerge
import io.tailrace.state._

/** What does it cost to release a step's left rows, in windows of few and of very many micro-batches? Makes the right
  * rows of one partition as compaction leaves them, and releases several steps from it, each with other keys.
  *
  * {{{
  *   sections   ████████ ████████ ▓▓ ▓▓ ▓▓ ░░░░░░     1,024, 32 and 1 micro-batches each, oldest first
  *   left rows  █ one step: the oldest of the window, two a key
  * }}}
  *
  * `bench/runMain io.tailrace.bench.ReleaseRegimes REGIME... FILE` adds its lines to a file. Only the thread's own CPU
  * time is measured, so other work on the machine counts little. Pages are blocks that RocksDB was asked for, in its
  * cache or not; KB are their bytes after decompression.
  */
object ReleaseRegimes {
  private val Rounds = 5
  private val Warm = 1000000
  private val ValueBytes = 200
  private val Hour = 3600L * 1000000
  private val rowBytes = new Array[Byte](RowLayout.length(8, ValueBytes).toInt)
  private val Base = Platform.BYTE_ARRAY_OFFSET.toLong

  /** @param window  microseconds
    * @param batch   right rows of a micro-batch; twice as many left rows
    * @param fanIn   runs that one compaction takes
    * @param layout  how many sections of each level, the highest first
    * @param batches micro-batches whose left rows leave at once
    * @param chunks  parts in which they are merged
    */
  private final case class Regime(
      name: String,
      window: Long,
      batch: Int,
      fanIn: Int,
      layout: Seq[Int],
      batches: Double,
      chunks: Int = 1
  ) {
    val sizes: Seq[Int] = layout.zip(layout.indices.reverse).flatMap { case (n, level) =>
      Seq.fill(n)(Math.pow(fanIn, level).toInt)
    }
    val share: Double = batches / sizes.sum
    val keys: Int = (batch * batches).toInt
  }

  /** Nanoseconds of CPU to read and sort the left rows, and to merge them; what the merge has read. */
  private final case class Cost(read: Long, merge: Long, pages: Long, bytes: Long, found: Long)

  private val day = Regime("24 h / 10 s, steps of 22.5 min", 24 * Hour, 1041, 32, Seq(8, 14, 18), 135)
  private val quarter = day.copy(name = "24 h / 10 s, a quarter of the rows", batch = 260)
  private val half = Regime("30 min / 10 s, steps of 30 s", Hour / 2, 1041, 32, Seq(5, 20), 3)
  private val regimes = Map(
    "day" -> day,
    "day-batch" -> day.copy(name = "24 h / 10 s, each micro-batch", batches = 1),
    "quarter" -> quarter,
    "quarter-two-chunks" -> quarter.copy(name = quarter.name + ", two chunks", chunks = 2),
    "quarter-16" -> quarter.copy(name = quarter.name + ", fan-in 16", fanIn = 16, layout = Seq(2, 1, 12, 8)),
    "quarter-64" -> quarter.copy(name = quarter.name + ", fan-in 64", fanIn = 64, layout = Seq(2, 7, 20)),
    "half" -> half,
    "half-batch" -> half.copy(name = "30 min / 10 s, each micro-batch", batches = 1),
    "few" -> Regime("25 micro-batches, each", Hour / 2, 32500, 32, Seq(25), 1)
  )

  /** @param arguments names of regimes, then the file */
  def main(arguments: Array[String]): Unit = {
    val statistics = new Statistics()
    // As one of many partitions of an executor has it: the right rows don't fit.
    BlockCache.ofExecutor.ask(8L << 20)
    BlockCache.ofExecutor.options.setStatistics(statistics)
    arguments.init.foreach { name =>
      Seq(false, true).foreach { matching =>
        val line = new ReleaseRegimes(regimes(name), matching, statistics).run()
        Files.writeString(Paths.get(arguments.last), line + "\n", CREATE, APPEND)
      }
    }
  }
}

private final class ReleaseRegimes(
    regime: ReleaseRegimes.Regime,
    matching: Boolean,
    statistics: Statistics
) {
  import ReleaseRegimes._

  private val directory = BenchRows.newDirectory()
  private val random = new SplittableRandom(7)
  private val threads = ManagementFactory.getThreadMXBean
  private var seq = 0L

  def run(): String = {
    val sections = right()
    // The first passes are for the compiler.
    val passes = 1 + Warm / (2 * regime.keys * Rounds)
    val costs = (0 until passes * Rounds).map(i => release(i % Rounds, sections))
    val files = sections.map(_.local.file.length).sum
    sections.foreach(_.local.release())
    BenchRows.deleteDirectory(directory)
    line(costs.takeRight(Rounds - 1), files)
  }

  private def line(costs: Seq[Cost], files: Long): String = {
    val rows = 2.0 * regime.keys
    def range(of: Cost => Double, digits: Int): String = {
      val all = costs.map(of(_) / rows)
      s"%.${digits}f to %.${digits}f".format(all.min, all.max)
    }
    val what = regime.name + (if (matching) ", right rows match" else ", none matches")
    f"$what%-58s | ${range(_.merge / 1e3, 2)}%-16s | ${range(_.read / 1e3, 2)}%-14s | ${range(_.pages.toDouble, 3)}%-16s | " +
      f"${range(_.bytes / 1024.0, 2)}%-16s | ${costs.head.found / rows}%.2f | ${files >> 20}%d"
  }

  /** The right rows of a window, oldest first. A right row follows its left row by a fifth of the window on average. */
  private def right(): Seq[LiveSection] = {
    var from = 0.0
    val batches = regime.sizes.sum
    regime.sizes.zipWithIndex.map { case (size, i) =>
      val until = from + size.toDouble / batches
      val live = section(directory.resolve(s"$i.run"), size * regime.batch, from, until)
      from = until
      live
    }
  }

  private def section(file: Path, rows: Int, from: Double, until: Double): LiveSection = {
    val keyed = Array.fill(rows) {
      val at = from + random.nextDouble() * (until - from)
      val likely = regime.share * 5 * Math.exp(-5 * at)
      val round = (random.nextDouble() / likely).toInt
      val key =
        if (matching && round < Rounds) keyOf(round, random.nextInt(regime.keys)) else random.nextLong()
      (key ^ Long.MinValue, (at * regime.window).toLong)
    }
    java.util.Arrays.sort(keyed, Ordering.Tuple2[Long, Long])
    val writer = new RunWriter(file.toFile)
    writer.begin(StoreKind.RightKeySorted, 0)
    keyed.foreach { case (key, time) => writer.append(row(key ^ Long.MinValue, time), Base) }
    writer.end()
    writer.finish()
    open(file, writer)
  }

  private def open(file: Path, writer: RunWriter): LiveSection = {
    val section = writer.sections.head
    writer.close()
    val run = new LocalRun(file.getFileName.toString, file.toFile)
    run.acquire()
    new LiveSection(run, section)
  }

  private def row(key: Long, time: Long): Array[Byte] = {
    seq += 1
    RowLayout.writeHeader(rowBytes, Base, time, seq, 8, ValueBytes)
    Platform.putLong(rowBytes, RowLayout.keyAt(Base), java.lang.Long.reverseBytes(key))
    // About half of a value can be compressed.
    var at = 32
    while (at < 32 + ValueBytes / 2) {
      Platform.putLong(rowBytes, Base + at, random.nextLong())
      at += 8
    }
    rowBytes
  }

  private def keyOf(round: Int, i: Int): Long = {
    val z = (round.toLong << 40) + i + 1
    val mixed = (z ^ (z >>> 31)) * 0x9e3779b97f4a7c15L
    (mixed ^ (mixed >>> 29)) * 0xbf58476d1ce4e5b9L
  }

  private def release(round: Int, sections: Seq[LiveSection]): Cost = {
    val file = directory.resolve(s"left-$round.run")
    val writer = new RunWriter(file.toFile)
    writer.begin(StoreKind.LeftTimeSorted, 0)
    val rows = 2 * regime.keys
    val span = regime.window * regime.share / 64
    (0 until rows).foreach(i =>
      writer.append(row(keyOf(round, i % regime.keys), (span * i / rows).toLong), Base)
    )
    writer.end()
    writer.finish()
    val left = open(file, writer)
    val memory = new RowMemory(BenchMemory.newTaskMemoryManager())
    val chunk = new RowBuffer(memory)
    val merge = new SortedMerge(-regime.window, 2 * regime.window, memory)
    val cursor = left.cursor()
    var (read, merged, found) = (0L, 0L, 0L)
    cursor.first()
    val (pagesBefore, bytesBefore) = (pages, bytes)
    while (cursor.isValid) {
      val started = threads.getCurrentThreadCpuTime
      chunk.clear()
      while (cursor.isValid && chunk.size < (rows + regime.chunks - 1) / regime.chunks) {
        chunk.appendRow(cursor.base, cursor.at)
        cursor.next()
      }
      val order = RowSort.byKey(chunk)
      val sorted = threads.getCurrentThreadCpuTime
      merge.start(chunk, order, sections)
      while (merge.next()) found += merge.candidates.count
      merged += threads.getCurrentThreadCpuTime - sorted
      read += sorted - started
    }
    val cost = Cost(read, merged, pages - pagesBefore, bytes - bytesBefore, found)
    cursor.close()
    merge.close()
    chunk.close()
    left.local.release()
    cost
  }

  private def count(ticker: TickerType): Long = statistics.getTickerCount(ticker)
  private def pages: Long = count(TickerType.BLOCK_CACHE_DATA_HIT) + count(TickerType.BLOCK_CACHE_DATA_MISS)

  /** Of blocks that were read, and of those that were found in the cache. */
  private def bytes: Long = count(TickerType.BLOCK_CACHE_DATA_BYTES_INSERT) +
    (count(TickerType.BLOCK_CACHE_DATA_HIT) << 14)
}
