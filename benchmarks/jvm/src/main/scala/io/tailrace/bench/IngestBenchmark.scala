package io.tailrace.bench

import java.nio.file.Path
import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

import io.tailrace.state.{RowBuffer, StoreKind}

/** Are runs better read directly, as the engine does it, or ingested into a RocksDB instance? A call is a small life of
  * a partition's state: ten batches come, all rows are read once, all rows go.
  *
  * {{{
  *              a batch                          the scan                   the end
  *   direct     one run                          SstFileReader, RunCursor   file deleted
  *   ingested   one SST file a bucket, ingested  RocksIterator              column family dropped
  * }}}
  *
  * Pages, options and sorting are the same. Where the two can't be alike it is in favour of the ingestion: its instance is
  * open before the clock starts, and it takes pages apart without [[io.tailrace.state.RunCursor]]'s checks.
  *
  * Cold: the first such life of a JVM, as in a short query. Warm: code compiled.
  */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(2)
class IngestBenchmark {
  import IngestBenchmark._

  /** Of a batch. */
  @Param(Array("1000", "65000"))
  var rows: Int = _

  @Param(Array("left-time-sorted", "right-key-sorted"))
  var store: String = _

  private var directory: Path = _
  private var kind: StoreKind = _
  private var batches: Seq[RowBuffer] = _
  private var expected: Long = _
  private var state: IngestedState = _

  @Setup
  def prepare(): Unit = {
    directory = BenchRows.newDirectory()
    kind = StoreKind.named(store).get
    batches = (0 until Batches).map(newBatch)
    expected = batches.map(batch => (0 until batch.size).map(batch.time).sum).sum
    state = new IngestedState(directory)
  }

  private def newBatch(i: Int): RowBuffer = {
    val batch = BenchRows.newBuffer()
    val span = BenchRows.Window / Batches
    BenchRows.append(
      batch,
      rows,
      keys = rows * Batches / 2,
      from = BenchRows.Start + span * i,
      span = span,
      firstSeq = rows.toLong * i
    )
    batch
  }

  @TearDown
  def close(): Unit = {
    state.close()
    batches.foreach(_.close())
    BenchRows.deleteDirectory(directory)
  }

  @Benchmark
  def direct(count: RowCount): Unit = {
    count.rows += rows * Batches
    liveDirectly()
  }

  @Benchmark
  def ingested(count: RowCount): Unit = {
    count.rows += rows * Batches
    liveIngested()
  }

  @Benchmark
  @BenchmarkMode(Array(Mode.SingleShotTime))
  @OutputTimeUnit(TimeUnit.MICROSECONDS)
  @Warmup(iterations = 0)
  @Measurement(iterations = 1)
  @Fork(10)
  def directCold(): Unit = liveDirectly()

  @Benchmark
  @BenchmarkMode(Array(Mode.SingleShotTime))
  @OutputTimeUnit(TimeUnit.MICROSECONDS)
  @Warmup(iterations = 0)
  @Measurement(iterations = 1)
  @Fork(10)
  def ingestedCold(): Unit = liveIngested()

  private def liveDirectly(): Unit = {
    val runs = batches.zipWithIndex.map { case (batch, i) =>
      BenchRows.writeRun(directory.resolve(s"$i.run"), kind, batch)
    }
    var sum = 0L
    runs.flatten.foreach { section =>
      val cursor = section.cursor()
      try {
        cursor.first()
        while (cursor.isValid) {
          sum += cursor.time
          cursor.next()
        }
      } finally cursor.close()
    }
    runs.foreach(_.head.local.release())
    requireAll(sum)
  }

  private def liveIngested(): Unit = {
    batches.foreach(state.add(kind, _, BenchRows.BucketWidth))
    val sum = state.sumOfTimes()
    state.drop()
    requireAll(sum)
  }

  /** A side that loses rows isn't faster. */
  private def requireAll(sum: Long): Unit = require(sum == expected, s"times sum to $sum, not $expected")
}

object IngestBenchmark {
  private val Batches = 10
}
