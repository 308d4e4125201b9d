package io.tailrace.bench

import java.nio.file.Path
import java.util.concurrent.TimeUnit

import org.apache.spark.sql.tailrace.BenchMemory
import org.openjdk.jmh.annotations._

import io.tailrace.label.SortedMerge
import io.tailrace.state.{LiveSection, RowBuffer, RowMemory, RowSort, StoreKind}

/** What does it cost to merge a chunk of expiring left rows with the right rows of their windows, for a chunk as large
  * as the state, for one that is small against it, and for a handful of rows; and how does that grow with the runs?
  */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(2)
class MergeScanBenchmark {
  import MergeScanBenchmark._

  /** Right rows in the state. */
  @Param(Array("100000", "1000000"))
  var entries: Int = _

  @Param(Array("1", "20", "200"))
  var runs: Int = _

  /** Left rows in the chunk: `dense`, as many as the state has entries; `sparse`, one in a hundred; `point`, 100. */
  @Param(Array("dense", "sparse", "point"))
  var probes: String = _

  private var directory: Path = _
  private var sections: Seq[LiveSection] = _
  private var chunk: RowBuffer = _
  private var order: Array[Int] = _
  private var merge: SortedMerge = _

  @Setup
  def prepare(): Unit = {
    directory = BenchRows.newDirectory()
    val keys = entries / 2
    sections = (0 until runs).flatMap(writeRun(_, keys))
    chunk = BenchRows.newBuffer()
    val probeRows = probes match {
      case "dense" => entries
      case "sparse" => entries / 100
      case "point" => 100
    }
    BenchRows.append(chunk, probeRows, keys, firstSeq = entries.toLong)
    order = RowSort.byKey(chunk)
    merge = new SortedMerge(0, BenchRows.Window, new RowMemory(BenchMemory.newTaskMemoryManager()))
  }

  private def writeRun(i: Int, keys: Int): Seq[LiveSection] = {
    val rows = BenchRows.newBuffer()
    try {
      val part = entries / runs
      val span = BenchRows.Window / runs
      BenchRows.append(
        rows,
        part,
        keys,
        from = BenchRows.Start + span * i,
        span = span,
        firstSeq = part.toLong * i
      )
      BenchRows.writeRun(directory.resolve(s"$i.run"), StoreKind.RightKeySorted, rows)
    } finally rows.close()
  }

  @TearDown
  def close(): Unit = {
    merge.close()
    chunk.close()
    sections.map(_.local).distinct.foreach { run =>
      run.release()
    }
    BenchRows.deleteDirectory(directory)
  }

  /** @return matches, so that nothing of it can be left out */
  @Benchmark
  def mergeChunk(count: ProbeCount): Int = {
    count.probes += chunk.size
    count.entries += entries
    merge.start(chunk, order, sections)
    var found = 0
    while (merge.next()) found += merge.candidates.count
    found
  }
}

object MergeScanBenchmark {

  /** Makes JMH report the time per left row of the chunk and per right row of the state. */
  @State(Scope.Thread)
  @AuxCounters(AuxCounters.Type.OPERATIONS)
  class ProbeCount {
    var probes = 0L
    var entries = 0L

    @Setup(Level.Iteration)
    def clear(): Unit = {
      probes = 0L
      entries = 0L
    }
  }
}
