package io.tailrace.bench

import java.nio.file.Path
import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

import io.tailrace.state.{LiveSection, RowBuffer, RowSort, RunCursor, StoreKind}

/** What does it cost to find one key in a large section, by a seek, and by going forwards from the key before it? */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
class PointProbeBenchmark {

  /** Rows in the section, two a key. */
  @Param(Array("1000000"))
  var rows: Int = _

  /** Eight bytes are compared as a number; longer keys begin alike and are compared byte by byte. */
  @Param(Array("8", "24"))
  var keyBytes: Int = _

  private var directory: Path = _
  private var live: LiveSection = _
  private var cursor: RunCursor = _
  private var probes: RowBuffer = _
  private var sorted: Array[Int] = _
  private var position = 0

  @Setup
  def prepare(): Unit = {
    directory = BenchRows.newDirectory()
    val buffer = BenchRows.newBuffer()
    try {
      BenchRows.append(buffer, rows, keys = rows / 2, keyBytes)
      val sections =
        BenchRows.writeRun(directory.resolve("0.run"), StoreKind.RightKeySorted, buffer, Long.MaxValue)
      require(sections.size == 1, s"${sections.size} sections instead of one")
      live = sections.head
    } finally buffer.close()
    probes = BenchRows.newBuffer()
    BenchRows.append(probes, 1 << 14, keys = rows / 2, keyBytes, valueBytes = 0, firstSeq = rows.toLong)
    sorted = RowSort.byKey(probes)
    cursor = live.cursor()
    cursor.first()
  }

  @TearDown
  def close(): Unit = {
    cursor.close()
    probes.close()
    live.local.release()
    BenchRows.deleteDirectory(directory)
  }

  /** @return the time of the row found */
  @Benchmark
  def seek(): Long = {
    position = (position + 1) & (probes.size - 1)
    cursor.seekKey(probes.base(position), probes.at(position))
    cursor.time
  }

  /** About sixty rows on from the last: half a page. */
  @Benchmark
  def advance(): Long = {
    position += 1
    if (position == sorted.length) {
      position = 0
      cursor.first()
    }
    cursor.advanceTo(probes.base(sorted(position)), probes.at(sorted(position)))
    cursor.time
  }
}
