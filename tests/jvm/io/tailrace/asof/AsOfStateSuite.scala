package io.tailrace.asof

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.WatermarkRules
import io.tailrace.join.{JoinColumns, StoredJoinContext, WaitingLeft}
import io.tailrace.state._
import io.tailrace.testkit.{Campaign, LocalSpark, StoreFixture}

/** How much the state holds, and what a batch takes to look into it: tasks without a query. */
final class AsOfStateSuite extends AnyFunSuite with StoreFixture {
  private val columns = {
    val left = Seq(AttributeReference("k", LongType)(), AttributeReference("t", TimestampType)())
    val right = Seq("rk" -> LongType, "rt" -> TimestampType, "v" -> LongType).map { case (name, of) =>
      AttributeReference(name, of)()
    }
    val fields = StructType(right.drop(1).map(a => StructField(a.name, a.dataType)))
    val added = Seq(AttributeReference("features", fields)())
    JoinColumns(left, right, left.take(1), right.take(1), left(1), right(1), added)
  }

  /** A query of one partition: each batch has its own version, and the watermark of the one before. */
  private final class Batches(window: AsOfWindow) {
    private val provider = newProvider()
    private var version = 0L
    private var watermark = WatermarkRules.NoWatermark
    val metrics: Map[String, SQLMetric] = (AsOfMetrics.names :+ "numRowsDroppedByWatermark")
      .map(name => name -> SQLMetrics.createMetric(LocalSpark.session.sparkContext, name))
      .toMap

    /** The most bytes of rows that the last batch held. */
    var peak = 0L

    /** @param to the watermark after the batch
      * @return key, time and value of each left row that comes out
      */
    def run(
        lefts: Iterator[(Long, Long)],
        rights: Iterator[(Long, Long, Long)],
        to: Long
    ): Seq[(Long, Long, Option[Long])] = {
      Compactions.awaitEnd()
      val store = open(provider, version)
      val memory = new RowMemory(TaskMemory.create(256L << 20))
      val tasks = new AsOfTasks(AsOfTimes(to, watermark), window, new WaitingLeft)
      val task = tasks.task(StoredJoinContext(columns, store, memory, 16L << 20, metrics))
      try {
        val left = lefts.map { case (k, t) => InternalRow(k, t) }
        val right = rights.map { case (k, t, v) => InternalRow(k, t, v) }
        val out = task
          .output(left, right)
          .map { row =>
            (row.getLong(0), row.getLong(1), Option.when(!row.isNullAt(2))(row.getStruct(2, 2).getLong(1)))
          }
          .toVector
        task.expire()
        peak = memory.peakBytes
        task.close()
        store.commit()
        version += 1
        watermark = to
        out
      } finally {
        task.close()
        store.abort()
      }
    }

    private def peek[T](body: TailraceStateStore => T): T = {
      Compactions.awaitEnd()
      val store = open(provider, version)
      try body(store)
      finally store.abort()
    }

    def rightRows: Long = peek(_.sectionsOf(StoreKind.RightNewest).map(_.section.rows).sum)
    def rightBytes: Long = peek(_.bytesOf(StoreKind.RightNewest))
    def files: Int = peek(_.files)
  }

  private val window = AsOfWindow(0, None)

  for ((each, tags) <- Campaign.sizes(10000, 100000))
    test(s"a key updated ${10 * each} times leaves one row, and another key's only value stays", tags: _*) {
      updated(each)
    }

  private def updated(each: Int): Unit = {
    val batches = new Batches(window)
    (0 until 10).foreach { i =>
      val updates = (1 to each).iterator.map(j => (1L, i * each.toLong + j, i * each.toLong + j))
      val only = if (i == 0) Iterator((2L, 1L, -1L)) else Iterator.empty
      val asked = Iterator((1L, i * each + each / 2L), (2L, i * each + each.toLong))
      val out = batches.run(asked, updates ++ only, to = (i + 1L) * each)
      val expected = Seq(
        (1L, i * each + each / 2L, Some(i * each + each / 2L)),
        (2L, i * each + each.toLong, Some(-1L))
      )
      assert(out.sorted == expected)
    }
    // What came last is merged when nobody looks between its rows any more.
    (1 to 12).foreach { i =>
      val at = 10L * each + 10 * i
      assert(
        batches.run(Iterator((1L, at)), Iterator((3L, at, 0L)), to = at) == Seq((1L, at, Some(10L * each)))
      )
      assert(batches.peak < (1L << 20), "a look at a key holds one row")
    }
    assert(batches.rightRows <= 2 + 12, "one row of each key, and those that aren't merged yet")
    assert(batches.run(Iterator((2L, 2000000L)), Iterator.empty, to = 2000000L).map(_._3) == Seq(Some(-1L)))
  }

  test("the state is as large as the live keys and the span that isn't released, however many updates come") {
    val batches = new Batches(AsOfWindow(50, None))
    val (keys, updates) = (2000, 500)
    var most = 0L
    var bytes = 0L
    val newest = scala.collection.mutable.LongMap.empty[Long]
    (1 to 60).foreach { i =>
      // A tenth of the keys is updated again and again, and the others now and then.
      val rows = (0 until updates).map { j =>
        val key = if (j % 2 == 0) j % (keys / 10) else (i * 7919L + j * 104729L) % keys
        (key.toLong, 100L * i + j % 100, i * 1000L + j)
      }
      rows.sortBy(_._2).foreach { case (key, _, value) => newest(key) = value }
      batches.run(Iterator.empty, rows.iterator, to = 100L * i)
      if (i > 20) {
        most = Math.max(most, batches.rightRows)
        bytes = Math.max(bytes, batches.rightBytes)
      }
    }
    // Two batches and the delay's are the span; a merge is due when what came since is as much as is there.
    assert(most <= 2 * keys + 10 * updates, s"$most rows")
    assert(bytes <= most * 80)
    val asked = newest.keys.toSeq.sorted
    val out = batches.run(asked.iterator.map(_ -> 20000L), Iterator.empty, to = 20000L)
    assert(out.map(row => row._1 -> row._3.get).toMap.size == asked.size)
  }

  test("with max_age, keys that aren't updated any more leave the state") {
    val batches = new Batches(AsOfWindow(0, Some(1000)))
    (1 to 40).foreach { i =>
      val rows = (0 until 100).iterator.map(j => (i * 100L + j, i * 100L + j, 0L))
      batches.run(Iterator.empty, rows, to = i * 100L)
    }
    assert(batches.rightRows <= 2 * 1000 + 900)
    batches.run(Iterator.empty, Iterator.empty, to = 1000000L)
    assert(batches.rightRows == 0 && batches.files == 0)
  }

  test("a run with the newest row of a key isn't dropped by time") {
    val batches = new Batches(window)
    batches.run(Iterator.empty, Iterator((1L, 1L, 7L)), to = 1)
    (1 to 5).foreach(i => batches.run(Iterator.empty, Iterator((2L, i * 1000L, 8L)), to = i * 1000L))
    assert(batches.run(Iterator((1L, 9000L)), Iterator.empty, to = 9000L) == Seq((1L, 9000L, Some(7L))))
  }

  test("rows that come out in the batch that has them need no memory for all of them") {
    val batches = new Batches(AsOfWindow(1000, None))
    batches.run(Iterator.empty, Iterator((1L, 10L, 7L)), to = 10000)
    val lefts = 1000000
    val out =
      batches.run((0 until lefts).iterator.map(i => (1L, 10001L + i % 900)), Iterator.empty, to = 10000)
    assert(out.size == lefts && out.forall(_._3.contains(7L)))
    assert(batches.peak < (64L << 20))
  }
}
