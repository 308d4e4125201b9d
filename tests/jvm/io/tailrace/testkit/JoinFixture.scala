package io.tailrace.testkit

import java.util.BitSet

import scala.util.Random

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.Suite

import io.tailrace.join.{JoinColumns, StoredJoinContext, StoredJoinTask, WaitingLeft}
import io.tailrace.label.{
  JoinSettings,
  JoinWindow,
  LabelJoinTasks,
  LabelJoinTimes,
  LabelMetrics,
  OneGroup,
  ReleaseSteps
}
import io.tailrace.state.{RowMemory, TailraceStateStore}

/** Tasks of the label join on stores of a test, without a query, over rows that are made as they are read. */
trait JoinFixture extends StoreFixture { self: Suite =>

  def columnsOf(settings: JoinSettings): JoinColumns = {
    val left = Seq(
      AttributeReference("k", LongType)(),
      AttributeReference("t", TimestampType)(),
      AttributeReference("id", IntegerType)(),
      AttributeReference("pad", StringType)()
    )
    val right = Seq(
      AttributeReference("rk", LongType)(),
      AttributeReference("rt", TimestampType)(),
      AttributeReference("rid", IntegerType)(),
      AttributeReference("rpad", StringType)()
    )
    val added = settings.form
      .fields("labels", right.drop(1))
      .map(field => AttributeReference(field.name, field.dataType, field.nullable)())
    JoinColumns(left, right, left.take(1), right.take(1), left(1), right(1), added)
  }

  def joinMetrics(): Map[String, SQLMetric] =
    (LabelMetrics.names :+ "numRowsDroppedByWatermark")
      .map(n => n -> SQLMetrics.createMetric(LocalSpark.session.sparkContext, n))
      .toMap

  def taskOf(
      data: JoinData,
      settings: JoinSettings,
      store: TailraceStateStore,
      manager: TaskMemoryManager,
      watermark: Long,
      metrics: Map[String, SQLMetric],
      bufferBytes: Long = 64L << 20
  ): StoredJoinTask = {
    val times = LabelJoinTimes(
      watermark,
      JoinWindow.NoWatermark,
      Math.max(1L, data.span / 4),
      settings.release.getOrElse(ReleaseSteps.EachBatch)
    )
    val context = StoredJoinContext(columnsOf(settings), store, new RowMemory(manager), bufferBytes, metrics)
    new LabelJoinTasks(times, settings, new WaitingLeft).task(context)
  }

  /** The part of so many rows that is in one of some batches. */
  def part(rows: Int, batch: Int, batches: Int): Range =
    (rows.toLong * batch / batches).toInt until (rows.toLong * (batch + 1) / batches).toInt

  /** Runs a task, and commits its store. All of its memory has to be free then. */
  def runTask(task: StoredJoinTask, store: TailraceStateStore, manager: TaskMemoryManager)(
      left: Iterator[InternalRow],
      right: Iterator[InternalRow]
  )(take: InternalRow => Unit): Unit =
    try {
      task.output(left, right).foreach(take)
      task.expire()
      task.close()
      assert(manager.getMemoryConsumptionForThisTask == 0, "bytes of task memory are still taken")
      store.commit(): Unit
    } finally {
      task.close()
      store.abort()
    }
}

/** The rows of both sides of a join, each made from its number.
  *
  * @param keys of both sides; the first one has `hotLeft` and `hotRight` of a hundred rows
  * @param span of their times, in microseconds; `ticks` different ones
  * @param wide bytes of every hundredth row, in place of `bytes`
  */
final case class JoinData(
    seed: Int,
    lefts: Int,
    rights: Int,
    keys: Int,
    hotLeft: Int = 0,
    hotRight: Int = 0,
    span: Long = 1000L * 1000 * 1000,
    ticks: Int = 1000,
    bytes: Int = 100,
    wide: Int = 100
) {
  private def bits(side: Int, i: Int): Random = new Random((seed * 31L + side) * 1000003L + i)

  private def keyOf(random: Random, hot: Int): Long =
    if (random.nextInt(100) < hot) 0L else random.nextInt(keys).toLong

  private def timeOf(random: Random): Long = JoinData.Start + random.nextInt(ticks).toLong * (span / ticks)

  private def rowOf(key: Long, time: Long, id: Int): InternalRow =
    InternalRow(key, time, id, UTF8String.fromBytes(new Array[Byte](if (id % 100 == 99) wide else bytes)))

  private def keyAndTime(side: Int, i: Int, hot: Int): (Long, Long) = {
    val random = bits(side, i)
    // Neighbouring seeds give similar first numbers.
    random.nextLong()
    (keyOf(random, hot), timeOf(random))
  }

  def left(i: Int): (Long, Long) = keyAndTime(0, i, hotLeft)
  def right(i: Int): (Long, Long) = keyAndTime(1, i, hotRight)

  def leftRows(ids: Iterable[Int] = 0 until lefts): Iterator[InternalRow] =
    ids.iterator.map { i =>
      val (k, t) = left(i); rowOf(k, t, i)
    }
  def rightRows(ids: Iterable[Int] = 0 until rights): Iterator[InternalRow] =
    ids.iterator.map { i =>
      val (k, t) = right(i); rowOf(k, t, i)
    }

  def end: Long = JoinData.Start + span
}

object JoinData {
  private val Start = 1700000000000000L
}

/** The result of a join of these rows, by binary search in sorted arrays. It shares no code with the engine.
  * Groups are compared by their size and a hash of their ids in order, pairs by a sum over those of a left
  * row.
  */
final class JoinDataOracle(data: JoinData, settings: JoinSettings) {
  private val byKey: Map[Long, (Array[Long], Array[Int])] =
    (0 until data.rights).map(i => (data.right(i), i)).groupBy(_._1._1).map { case (key, rows) =>
      // A row has the lowest byte of a number first, and rows of one time are in the order of their bytes.
      val sorted = rows.sortWith { case (((_, a), i), ((_, b), j)) =>
        if (a != b) a < b else Integer.compareUnsigned(Integer.reverseBytes(i), Integer.reverseBytes(j)) < 0
      }
      key -> ((sorted.map(_._1._2).toArray, sorted.map(_._2).toArray))
    }

  private val seen = new BitSet
  private var unlike = Vector.empty[String]
  private val pairs = new Array[Long](data.lefts)
  private val pairCounts = new Array[Long](data.lefts)
  var rows = 0L

  private def matchesOf(id: Int): (Array[Long], Array[Int], Int, Int) = {
    val (key, time) = data.left(id)
    val (times, ids) = byKey.getOrElse(key, (Array.empty[Long], Array.empty[Int]))
    def firstFrom(t: Long): Int = {
      var (low, high) = (0, times.length)
      while (low < high) {
        val middle = (low + high) / 2
        if (times(middle) >= t) high = middle else low = middle + 1
      }
      low
    }
    (times, ids, firstFrom(time - settings.window.before), firstFrom(time + settings.window.after + 1))
  }

  private lazy val group = settings.form.asInstanceOf[OneGroup]

  private def expected(id: Int): (Seq[Int], Boolean) = {
    val (times, ids, from, until) = matchesOf(id)
    val time = data.left(id)._2
    val chosen: Seq[Int] =
      if (from >= until) Nil
      else
        group.policy.name match {
          case "all" =>
            ids
              .slice(
                from,
                Math.min(until.toLong, from.toLong + group.maxMatches.getOrElse(Int.MaxValue)).toInt
              )
              .toSeq
          case "first" => Seq(ids(from))
          case "last" => Seq(ids(until - 1))
          case "nearest" => Seq(ids((from until until).minBy(i => (Math.abs(times(i) - time), i))))
        }
    (chosen, group.policy.name == "all" && chosen.size < until - from)
  }

  /** Takes a row of the output. */
  def take(row: InternalRow): Unit = {
    rows += 1
    val id = row.getInt(2)
    if (settings.isGrouped) {
      if (seen.get(id)) unlike :+= s"left row $id twice"
      seen.set(id)
      val array = row.getArray(4)
      val found = (0 until array.numElements()).map(array.getStruct(_, 3).getInt(1))
      val (wanted, truncated) = expected(id)
      if (found != wanted) unlike :+= s"left row $id: ${found.size} labels, expected ${wanted.size}"
      if (group.maxMatches.nonEmpty && row.getBoolean(5) != truncated)
        unlike :+= s"left row $id: truncated"
      if (row.getUTF8String(3).numBytes != (if (id % 100 == 99) data.wide else data.bytes))
        unlike :+= s"left row $id: its columns"
    } else {
      pairs(id) += JoinDataOracle.mix(row.getInt(5))
      pairCounts(id) += 1
    }
    ()
  }

  /** The differences, when all rows have been taken. */
  def differences: Seq[String] = {
    if (settings.isGrouped) {
      val missing = (0 until data.lefts).count(!seen.get(_))
      if (missing > 0) unlike :+= s"$missing left rows have not come out"
    } else
      (0 until data.lefts).foreach { id =>
        val (_, ids, from, until) = matchesOf(id)
        var sum = 0L
        var i = from
        while (i < until) {
          sum += JoinDataOracle.mix(ids(i))
          i += 1
        }
        if (sum != pairs(id) || pairCounts(id) != Math.max(0, until - from))
          unlike :+= s"left row $id: ${pairCounts(id)} pairs, expected ${until - from}"
      }
    unlike.take(5)
  }
}

object JoinDataOracle {
  private def mix(id: Int): Long = {
    val x = (id + 1L) * 0x9e3779b97f4a7c15L
    (x ^ (x >>> 29)) * 0xbf58476d1ce4e5b9L
  }
}
