package io.tailrace.bench

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

import io.tailrace.state.{RowBuffer, RowSort}

/** What does it cost to take the rows of a batch in, and to sort them in each of the orders that a run needs? */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
class RowSortBenchmark {

  @Param(Array("1000", "20000", "200000"))
  var rows: Int = _

  /** Eight bytes are sorted by the radix sort alone; longer keys that begin alike are all left to the merge sort. */
  @Param(Array("8", "24"))
  var keyBytes: Int = _

  private var buffer: RowBuffer = _
  private var refilled: RowBuffer = _

  @Setup
  def prepare(): Unit = {
    buffer = BenchRows.newBuffer()
    refilled = BenchRows.newBuffer()
    BenchRows.append(buffer, rows, keys = rows / 2, keyBytes)
  }

  @TearDown
  def close(): Unit = Seq(buffer, refilled).foreach(_.close())

  @Benchmark
  def byTime(count: RowCount): Array[Int] = {
    count.rows += rows
    RowSort.byTime(buffer)
  }

  @Benchmark
  def byKey(count: RowCount): Array[Int] = {
    count.rows += rows
    RowSort.byKey(buffer)
  }

  @Benchmark
  def byBucketAndKey(count: RowCount): Array[Int] = {
    count.rows += rows
    RowSort.byBucketAndKey(buffer, BenchRows.BucketWidth)
  }

  /** The random numbers of the rows are in it, about a third: compare it with itself only. */
  @Benchmark
  def append(count: RowCount): Int = {
    count.rows += rows
    refilled.clear()
    BenchRows.append(refilled, rows, keys = rows / 2, keyBytes)
    refilled.size
  }
}
