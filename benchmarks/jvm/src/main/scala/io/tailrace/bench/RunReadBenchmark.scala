package io.tailrace.bench

import java.nio.file.Path
import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

import io.tailrace.state.{LiveSection, RowBuffer, StoreKind}

/** What does it cost to read the rows of a run back, a page at a time, and to copy them into a buffer, as what expires
  * is? `RunWriteBenchmark` is the other way.
  */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
class RunReadBenchmark {

  @Param(Array("20000", "200000"))
  var rows: Int = _

  @Param(Array("20", "140"))
  var valueBytes: Int = _

  private var directory: Path = _
  private var sections: Seq[LiveSection] = _
  private var copied: RowBuffer = _

  @Setup
  def prepare(): Unit = {
    directory = BenchRows.newDirectory()
    copied = BenchRows.newBuffer()
    val buffer = BenchRows.newBuffer()
    try {
      BenchRows.append(buffer, rows, keys = rows / 2, valueBytes = valueBytes)
      sections = BenchRows.writeRun(directory.resolve("0.run"), StoreKind.LeftTimeSorted, buffer)
    } finally buffer.close()
  }

  @TearDown
  def close(): Unit = {
    copied.close()
    sections.head.local.release()
    BenchRows.deleteDirectory(directory)
  }

  /** @return the sum of the rows' times, so that none can be left out */
  @Benchmark
  def scan(count: RowCount): Long = {
    count.rows += rows
    var sum = 0L
    sections.foreach { live =>
      val cursor = live.cursor()
      try {
        cursor.first()
        while (cursor.isValid) {
          sum += cursor.time
          cursor.next()
        }
      } finally cursor.close()
    }
    sum
  }

  @Benchmark
  def copy(count: RowCount): Int = {
    count.rows += rows
    copied.clear()
    sections.foreach { live =>
      val cursor = live.cursor()
      try {
        cursor.first()
        while (cursor.isValid) {
          copied.appendRow(cursor.base, cursor.at)
          cursor.next()
        }
      } finally cursor.close()
    }
    copied.size
  }
}
