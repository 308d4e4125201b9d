package io.tailrace.bench

import java.util.concurrent.TimeUnit

import org.apache.spark.sql.tailrace.BenchMemory
import org.openjdk.jmh.annotations._

import io.tailrace.join.ExpiringRows
import io.tailrace.label.SortedMerge
import io.tailrace.state.{MemoryShare, RowBuffer, RowMemory, RowSort, StoreKind, TailraceStateStore}

/** What does it cost to expire a few left rows of a large state: to find them, to merge them with their right rows, and
  * to commit what is left?
  */
@State(Scope.Thread)
@Fork(2)
class ExpiryBenchmark {

  /** Left rows in the state of one partition; half as many right rows. */
  @Param(Array("100000", "1000000"))
  var stateRows: Int = _

  /** Micro-batches, and so runs, that the state came in. */
  @Param(Array("20", "200"))
  var batches: Int = _

  @Param(Array("100", "1000"))
  var expiring: Int = _

  private var state: BenchState = _
  private var chunk: RowBuffer = _
  private var merge: SortedMerge = _
  private var share: MemoryShare = _

  @Setup
  def prepare(): Unit = {
    chunk = BenchRows.newBuffer()
    val memory = new RowMemory(BenchMemory.newTaskMemoryManager())
    merge = new SortedMerge(0, BenchRows.Window, memory)
    share = new MemoryShare(memory, 64L << 20)
    state = new BenchState(stateRows, batches)
  }

  @Setup(Level.Iteration)
  def refill(): Unit = if (state.remaining < expiring) {
    state.close()
    state = new BenchState(stateRows, batches)
  }

  @TearDown
  def close(): Unit = {
    state.close()
    merge.close()
    chunk.close()
  }

  /** Up to the commit, which is left out: the same version again and again. */
  @Benchmark
  @BenchmarkMode(Array(Mode.AverageTime))
  @OutputTimeUnit(TimeUnit.MICROSECONDS)
  @Warmup(iterations = 5, time = 1)
  @Measurement(iterations = 5, time = 1)
  def expire(): Int = {
    val store = state.open()
    try expireFrom(store)
    finally store.abort()
  }

  /** With the commit: a version per call. */
  @Benchmark
  @BenchmarkMode(Array(Mode.SingleShotTime))
  @OutputTimeUnit(TimeUnit.MICROSECONDS)
  @Warmup(iterations = 50)
  @Measurement(iterations = 100)
  def expireAndCommit(): Int = {
    val store = state.open()
    try {
      val found = expireFrom(store)
      store.commit()
      state.advance(expiring)
      found
    } finally store.abort()
  }

  /** The steps of a `GroupPass` for one chunk. @return matches found */
  private def expireFrom(store: TailraceStateStore): Int = {
    val through = state.timeOf(expiring)
    val rows = new ExpiringRows(store, StoreKind.LeftTimeSorted, store.expiredThrough, through)
    try {
      chunk.clear()
      share.reset()
      rows.fill(chunk, share)
      require(chunk.size == expiring, s"${chunk.size} rows expired instead of $expiring")
      merge.start(chunk, RowSort.byKey(chunk), store.sectionsOf(StoreKind.RightKeySorted))
      var found = 0
      while (merge.next()) found += merge.candidates.count
      store.markExpired(StoreKind.LeftTimeSorted, through, rows.taken.getOrElse(_, 0L))
      store.dropThrough(StoreKind.LeftTimeSorted, through)
      store.dropThrough(StoreKind.RightKeySorted, through)
      found
    } finally rows.close()
  }
}
