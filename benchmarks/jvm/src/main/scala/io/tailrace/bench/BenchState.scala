package io.tailrace.bench

import org.apache.spark.sql.SparkSession

import io.tailrace.state.{StoreKind, TailraceStateStore}

/** The state of one partition after a window's worth of micro-batches, opened through the provider as Spark does, of
  * which the oldest left rows expire. Needs no cluster: a local Spark context gives it its directories.
  *
  * @param rows    left rows; half as many right rows
  * @param batches each wrote one run and committed
  */
final class BenchState(rows: Int, batches: Int) extends AutoCloseable {
  private val directory = BenchRows.newDirectory()
  private val spark =
    SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
  private val provider = BenchProvider.create(directory.resolve("state").toUri.toString)
  private var version = 0L
  private var expired = 0

  spark.sparkContext.setLogLevel("ERROR")
  (0 until batches).foreach(write)

  private def write(batch: Int): Unit = {
    val left = BenchRows.newBuffer()
    val right = BenchRows.newBuffer()
    val store = open()
    try {
      val part = rows / batches
      val span = BenchRows.Window / batches
      val from = BenchRows.Start + span * batch
      val seq = part.toLong * batch
      BenchRows.append(
        left,
        part,
        keys = rows / 2,
        from = from,
        span = span,
        firstSeq = seq,
        shuffled = false
      )
      BenchRows.append(right, part / 2, keys = rows / 2, from = from, span = span, firstSeq = rows + seq)
      store.addRun(BenchRows.BucketWidth, StoreKind.LeftTimeSorted -> left, StoreKind.RightKeySorted -> right)
      store.commit()
      version += 1
    } finally {
      store.abort()
      left.close()
      right.close()
    }
  }

  /** The newest version; whoever opens it commits or aborts it. */
  def open(): TailraceStateStore =
    provider
      .load(version, None, empty = false)
      .asInstanceOf[TailraceStateStore]

  /** Left rows that have not expired. */
  def remaining: Int = rows - expired

  /** The time of the `next`-th left row of those that have not expired. */
  def timeOf(next: Int): Long = {
    val i = expired + next - 1
    val part = rows / batches
    val span = BenchRows.Window / batches
    BenchRows.Start + span * (i / part) + span * (i % part) / part
  }

  /** Says that the open version was committed with `n` more left rows expired. */
  def advance(n: Int): Unit = {
    version += 1
    expired += n
  }

  override def close(): Unit = {
    provider.close()
    spark.stop()
    BenchRows.deleteDirectory(directory)
  }
}
