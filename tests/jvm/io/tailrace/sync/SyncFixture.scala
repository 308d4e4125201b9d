package io.tailrace.sync

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.sql.types.{IntegerType, StringType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.Suite

import io.tailrace.common.Policy
import io.tailrace.join.{JoinColumns, StoredJoinContext}
import io.tailrace.state.{KeptMemory, RowMemory, TailraceStateStore}
import io.tailrace.testkit.{LocalSpark, StoreFixture, SyncOut, SyncRow}

/** Tasks of a synced join on stores of a test, without a query. */
private[sync] trait SyncFixture extends StoreFixture { self: Suite =>

  val columns: JoinColumns = {
    val left = Seq(
      AttributeReference("k", StringType)(),
      AttributeReference("t", TimestampType)(),
      AttributeReference("id", IntegerType)()
    )
    val right = Seq(
      AttributeReference("rk", StringType)(),
      AttributeReference("rt", TimestampType)(),
      AttributeReference("rid", IntegerType)()
    )
    JoinColumns(left, right, left.take(1), right.take(1), left(1), right(1), Nil)
  }

  def settings(
      window: Long = 10000000,
      onDuplicate: Policy = Policy.Emit,
      emitsUnmatchedRight: Boolean = false,
      syncDelay: Long = 5000000,
      oneToOne: Boolean = false
  ): SyncSettings =
    SyncSettings(
      "test",
      syncDelay,
      window,
      Policy.Pause,
      0,
      onDuplicate,
      emitsUnmatchedRight,
      None,
      oneToOne = oneToOne
    )

  def row(r: SyncRow): InternalRow =
    InternalRow(r.key.map(UTF8String.fromString).orNull, r.time.map(Long.box).orNull, r.id)

  def out(row: InternalRow): SyncOut = {
    def unlessNull[T](i: Int)(value: => T): Option[T] = if (row.isNullAt(i)) None else Some(value)
    SyncOut(
      unlessNull(0)(row.getUTF8String(0).toString),
      unlessNull(2)(row.getInt(2)),
      unlessNull(4)(row.getInt(4)),
      if (row.numFields > 5) unlessNull(5)(row.getUTF8String(5).toString) else None
    )
  }

  /** All metrics of a task, by name. */
  def newMetrics(): Map[String, SQLMetric] =
    SyncMetrics.names.map(n => n -> SQLMetrics.createMetric(LocalSpark.session.sparkContext, n)).toMap

  /** The results of a batch.
    *
    * @param held  what the new version holds
    * @param state rows that its state reader sees, by store
    * @param rows  that it says it has
    */
  case class Done(
      out: Seq[SyncOut],
      metrics: Map[String, Long],
      held: SyncHeld,
      state: Map[String, Int],
      rows: Long,
      files: Int
  )

  /** Keys of a few hashes only. */
  object Colliding extends KeyHash {
    override def ofBytes(base: AnyRef, at: Long, length: Int): Long =
      (KeyHash.XX64.ofBytes(base, at, length) & 3) << 60
  }

  /** Runs a batch on a store.
    *
    * @param kept  for the index of right rows
    * @param until how far it gets: what it gives is taken up to a row, or all; then its end; then the commit
    */
  def runBatch(
      store: TailraceStateStore,
      settings: SyncSettings,
      times: SyncTimes,
      left: Seq[SyncRow],
      right: Seq[SyncRow],
      bufferBytes: Long = 64L << 20,
      memoryBytes: Long = 512L << 20,
      hash: KeyHash = KeyHash.XX64,
      layout: SyncLayout = SyncLayout(),
      until: Int = Int.MaxValue,
      kept: KeptMemory = new KeptMemory(Long.MaxValue)
  ): Option[Done] = {
    val manager = TaskMemory.create(memoryBytes)
    val metrics = newMetrics()
    val context = StoredJoinContext(columns, store, new RowMemory(manager), bufferBytes, metrics)
    val task = new SyncJoinTask(context, settings, times, hash = hash, layout = layout, keptMemory = kept)
    try {
      val rows = task.output(left.iterator.map(row), right.iterator.map(row)).map(out)
      val taken = rows.take(until).toVector
      if (rows.hasNext || until == taken.size) None
      else {
        task.expire()
        task.close()
        store.commit()
        val state = store.iterator("default")
        val found = state.map(_.key.getUTF8String(0).toString).toSeq.groupMapReduce(identity)(_ => 1)(_ + _)
        state.close()
        Some(
          Done(
            taken,
            metrics.view.mapValues(_.value).toMap,
            SyncJoinTasks.heldIn(store),
            found,
            store.metrics.numKeys,
            store.files
          )
        )
      }
    } finally {
      task.close()
      store.abort()
      assert(manager.getMemoryConsumptionForThisTask == 0, "bytes of task memory are still taken")
    }
  }
}
