package io.tailrace.bench

import java.lang.management.ManagementFactory
import java.nio.file.StandardOpenOption.{APPEND, CREATE}
import java.nio.file.{Files, Paths}
import java.util.SplittableRandom

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, UnsafeProjection}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.tailrace.BenchMemory
import org.apache.spark.sql.types._

import io.tailrace.join.{JoinColumns, StoredJoinContext, WaitingLeft}
import io.tailrace.label._
import io.tailrace.state.{RowMemory, TailraceStateStore}

import com.sun.management.OperatingSystemMXBean

/** What does a window of very many micro-batches cost, from the rows' arrival to their end? Runs the label join's task on
  * one partition: rows are read and written, versions committed, files compacted and purged, left rows released by the
  * default steps. Only Spark itself isn't there.
  *
  * {{{
  *   window 24 h   |------------------------------|---------------|
  *   batches       8,640 of them in a window, 250 left rows each      CPU of the whole JVM / rows
  *                 or 25 of them, 86,400 left rows each
  *   window 24 h   |-|-|-|-|-|- ...  25 of them in a window, 250 left rows each
  * }}}
  *
  * `bench/runMain io.tailrace.bench.LongWindow FILE ROWS,BATCHES,WINDOWS...` adds a line for each run: left rows of a window,
  * micro-batches of a window, how many windows. Two left rows have a key, and one of two left rows has a right row, a fifth of
  * the window later on average. The CPU of making the rows alone is measured first, and taken away.
  */
object LongWindow {
  private val Hour = 3600L * 1000000
  private val Window = 24 * Hour

  /** @param arguments the file, then the runs */
  def main(arguments: Array[String]): Unit = {
    val spark = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.local.dir", Files.createTempDirectory("long-window").toString)
      .getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    // The first run is for the compiler.
    (arguments(1) +: arguments.drop(1)).map(_.split(",")).zipWithIndex.foreach {
      case (Array(lefts, batches, windows), i) =>
        val line = new LongWindow(spark, lefts.toInt, batches.toInt, windows.toDouble).run()
        if (i > 0) Files.writeString(Paths.get(arguments.head), line + "\n", CREATE, APPEND)
      case (other, _) => throw new IllegalArgumentException(other.mkString(","))
    }
    spark.stop()
  }
}

private final class LongWindow(spark: SparkSession, leftsOfWindow: Int, batches: Int, windows: Double) {
  import LongWindow._

  private val system = ManagementFactory.getOperatingSystemMXBean.asInstanceOf[OperatingSystemMXBean]
  private val directory = BenchRows.newDirectory()
  private val settings = JoinSettings(
    JoinWindow(0, Window),
    JoinOutput.Grouped,
    OneGroup(MatchPolicy.All, None),
    marksLate = false,
    MatchStrategy.Lazy
  )
  private val columns = {
    def of(prefix: String) = Seq("key" -> LongType, "time" -> TimestampType, "id" -> LongType).map {
      case (name, kind) => AttributeReference(s"$prefix$name", kind)()
    }
    val (left, right) = (of("l_"), of("r_"))
    val element = StructType(right.drop(1).map(a => StructField(a.name, a.dataType)))
    val labels = AttributeReference("labels", ArrayType(element, containsNull = false))()
    JoinColumns(left, right, left.take(1), right.take(1), left(1), right(1), Seq(labels))
  }
  private val metrics: Map[String, SQLMetric] = (LabelMetrics.names :+ "numRowsDroppedByWatermark")
    .map(name => name -> SQLMetrics.createMetric(spark.sparkContext, name))
    .toMap

  private val total = (leftsOfWindow * windows).toInt
  private val count = (batches * windows).toInt

  def run(): String = {
    val generated = cpu(batchesOfRows().foreach { case (left, right) =>
      left.foreach(_ => ()); right.foreach(_ => ())
    })
    var out, matched, rows = 0L
    val used = cpu {
      val provider = BenchProvider.create(directory.resolve("state").toUri.toString)
      var version = 0L
      batchesOfRows().foreach { case (left, right) =>
        val watermark = (Window * windows * version / count).toLong
        val store = provider
          .load(version, None, empty = false)
          .asInstanceOf[TailraceStateStore]
        val memory = new RowMemory(BenchMemory.newTaskMemoryManager())
        val context = StoredJoinContext(columns, store, memory, 64L << 20, metrics)
        val release = ReleaseSteps.default(settings.window)
        val late = if (version == 0) JoinWindow.NoWatermark else watermark - 1
        val times =
          LabelJoinTimes(if (version == 0) JoinWindow.NoWatermark else watermark, late, Window / 4, release)
        val task = new LabelJoinTasks(times, settings, new WaitingLeft).task(context)
        task.output(left, right).foreach { row =>
          out += 1
          matched += row.getArray(3).numElements()
        }
        rows += task.rowsKept
        task.expire()
        task.close()
        store.commit()
        store.abort()
        version += 1
        // Spark does that each minute, which is 6 micro-batches of 10 s.
        if (version % 6 == 0 || leftsOfWindow / batches > 10000) provider.maintain()
      }
      provider.close()
    }
    BenchRows.deleteDirectory(directory)
    val own = used - generated
    f"$batches%7d batches | ${rows.toDouble / count}%10.0f rows | ${own / 1e3 / rows}%6.2f us a row | " +
      f"${own / 1e6 / count}%8.2f ms a batch | $out%9d left rows out with $matched%9d right rows"
  }

  private def cpu(body: => Unit): Long = {
    val before = system.getProcessCpuTime
    body
    system.getProcessCpuTime - before
  }

  /** Left and right rows of each micro-batch. A right row is made with its left row, and comes with its own time. */
  private def batchesOfRows(): Iterator[(Iterator[InternalRow], Iterator[InternalRow])] = {
    val random = new SplittableRandom(7)
    val waiting = mutable.PriorityQueue.empty[(Long, Long)](Ordering.by[(Long, Long), Long](_._1).reverse)
    val span = (Window * windows).toLong
    // As an exchange gives them; both sides have the same types.
    val unsafe = UnsafeProjection.create(columns.left, columns.left)
    var left = 0
    (1 to count).iterator.map { batch =>
      val lefts = new mutable.ArrayBuffer[InternalRow]
      val rights = new mutable.ArrayBuffer[InternalRow]
      val until = (total.toLong * batch / count).toInt
      while (left < until) {
        val time = Math.max(1L, span / total * left)
        val key = (left / 2) * 0x9e3779b97f4a7c15L
        lefts += unsafe(InternalRow(key, time + span / count, left.toLong)).copy()
        if (left % 2 == 0)
          waiting += ((time + (-Math.log(1 - random.nextDouble()) * Window / 5).toLong + span / count, key))
        left += 1
      }
      val end = span / count * (batch + 1)
      while (waiting.nonEmpty && waiting.head._1 < end) {
        val (time, key) = waiting.dequeue()
        rights += unsafe(InternalRow(key, time, time)).copy()
      }
      (lefts.iterator, rights.iterator)
    }
  }
}
