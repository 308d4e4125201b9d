package io.tailrace.testing

import java.util
import java.util.concurrent.{ConcurrentSkipListMap, TimeUnit}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.tailrace.ClockedQuery
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{DataFrame, Dataset, Row, SparkSession}

import io.tailrace.driver.DriverClock
import io.tailrace.watermark.HostProgress

/** Streams and queries of one test, which have one clock. Python's `tailrace.testing` is made of it.
  *
  * {{{
  *   12:00  add(a row at 11:58), run      batch 0 at 12:00; watermark 11:48 of a delay of 10 minutes
  *          advance to 12:40              batch 1 at 12:40, without rows; watermark still 11:48
  *                                        batch 2 at 12:40, without rows; watermark 12:30
  * }}}
  *
  * @param startMs of the clock
  */
final class TestStreams(session: SparkSession, startMs: Long) extends AutoCloseable {
  private val sources = new ArrayBuffer[TestRows]
  private val queries = new ArrayBuffer[TestQuery]
  @volatile private var nowMs = startMs
  @volatile private var eventTime = Option.empty[Long]

  def clockMs: Long = nowMs

  /** Moves the clock and event time, as a row of that time in each stream would, without any output for such rows.
    * Each query sees it in its next batch. Neither goes back.
    */
  def moveTo(ms: Long): Unit = betweenBatches {
    // One clock for all tests of a JVM: years of each would be more than its nanoseconds can count.
    val moved = Math.min(Math.max(0, ms - nowMs), TestStreams.MostSilentMs)
    DriverClock.forward(TimeUnit.MILLISECONDS.toNanos(moved))
    nowMs = Math.max(nowMs, ms)
    eventTime = Some(eventTime.fold(ms)(Math.max(_, ms)))
    tick()
  }

  /** Runs within a batch that reads one of the sources. If hosts or stamps make the watermark, only their rows can
    * move it.
    */
  private def planned(): Unit = eventTime.foreach { ms =>
    ClockedQuery.seeEventTime(ms)(plan => !plan.exists(_.isInstanceOf[HostProgress]))
  }

  /** @param schema in JSON */
  def source(schema: String): TestRows = {
    val source = new TestRows(DataType.fromJson(schema).asInstanceOf[StructType], () => planned())
    sources += source
    source
  }

  /** Makes all queries run a batch, with or without rows. */
  def tick(): Unit = sources.foreach(_.tick())

  /** Makes staged rows visible to all queries, each in one batch: half of it would be a different test, with
    * another watermark after a restart.
    */
  def flush(): Unit = betweenBatches(sources.foreach(_.flush()))

  private def betweenBatches(body: => Unit): Unit =
    ClockedQuery.betweenBatches(session.streams)(body)

  /** @param mode "append", "update" or "complete" */
  def query(frame: DataFrame, checkpoint: String, mode: String): TestQuery = {
    val query = new TestQuery(this, session, checkpoint, mode)
    query.start(frame)
    queries += query
    query
  }

  override def close(): Unit = {
    queries.foreach(_.stop())
    sources.foreach(_.close())
  }
}

private object TestStreams {

  /** The part of one move that idle hosts and partitions see. */
  private val MostSilentMs = TimeUnit.DAYS.toMillis(1)
}

/** A query of a test. Its rows are kept by batch, as an idempotent sink does. */
final class TestQuery(streams: TestStreams, session: SparkSession, checkpoint: String, mode: String) {
  // With the schema of the version of the query that gave them.
  private val batches = new ConcurrentSkipListMap[Long, (StructType, Seq[Row])]
  private val changed = new ConcurrentSkipListMap[Long, String]
  private var running: ClockedQuery = _

  /** Starts it, on its checkpoint. */
  def start(frame: DataFrame): Unit = {
    running = ClockedQuery.start(frame, checkpoint, () => streams.clockMs, modeOf(mode))((rows, batch) =>
      take(rows, batch)
    )
  }

  private def modeOf(name: String): OutputMode = name match {
    case "append" => OutputMode.Append
    case "update" => OutputMode.Update
    case "complete" => OutputMode.Complete
    case other => throw new IllegalArgumentException(s"no output mode $other")
  }

  /** Arrays of bytes with equal content aren't equal in Scala, and NaN never is. */
  private def comparable(value: Any): Any = value match {
    case number: Double => ("double", java.lang.Double.doubleToLongBits(number))
    case number: Float => ("float", java.lang.Float.floatToIntBits(number))
    case bytes: Array[Byte] => bytes.toSeq
    case row: Row => row.toSeq.map(comparable)
    case all: scala.collection.Map[_, _] => all.map { case (k, v) => comparable(k) -> comparable(v) }
    case all: scala.collection.Seq[_] => all.map(comparable)
    case other => other
  }

  private def take(frame: Dataset[Row], batch: Long): Unit = {
    val rows = frame.collect().toSeq
    val before = Option(batches.put(batch, (frame.schema, rows))).map(_._2)
    def counts(of: Seq[Row]) = of.groupMapReduce(comparable)(_ => 1)(_ + _)
    before.filter(counts(_) != counts(rows)).foreach { first =>
      changed.put(batch, s"batch $batch gave ${first.size} rows, and others when it ran again: ${rows.size}")
    }
  }

  def stop(): Unit = running.query.stop()

  def isRunning: Boolean = running.query.isActive

  /** True if it has ended, without an error. */
  def isStopped: Boolean = !running.query.isActive && running.query.exception.isEmpty

  /** The progress of the last batch of this start, in JSON; null: none yet. With a clock that stands still, Spark has no
    * rates, and PySpark can't read it.
    */
  def progress: String = running.query.recentProgress.lastOption.fold(null: String)(_.json)

  /** The progress of each batch of this start, in their order, as [[progress]] has it. */
  def progresses: util.List[String] = {
    // An idle query reports too, with the numbers of the last batch.
    val ran = running.query.recentProgress.toSeq.filter(_.durationMs.containsKey("addBatch"))
    ran.sortBy(_.batchId).map(_.json).asJava
  }

  /** Entries in the state of each operator, by the operator's name, after the last batch of this start. */
  def waiting: util.Map[String, Long] = {
    // An idle query reports too, and without operators at its start.
    val operators = running.query.recentProgress.map(_.stateOperators).filter(_.nonEmpty).lastOption
    operators.toSeq.flatten.groupMapReduce(_.operatorName)(_.numRowsTotal)(_ + _).asJava
  }

  /** Makes added rows visible to it, as one batch, and waits until no batch is left to run. */
  def run(): Unit = {
    streams.flush()
    running.query.processAllAvailable()
  }

  /** Runs, moves the clock and event time, and runs again. */
  def advance(ms: Long): Unit = {
    run()
    streams.moveTo(ms)
    running.query.processAllAvailable()
  }

  /** Milliseconds; 0: none yet. */
  def watermarkMs: Long = running.watermarkMs

  /** Those of its streams that have had a row since this start, by the column of the event time. */
  def watermarks: java.util.Map[String, Long] =
    running.watermarks.groupMapReduce(_.column)(_.ms)(Math.min).asJava

  /** Rows of the batches after one, in their order: a DataFrame for each schema. */
  def rowsAfter(batch: Long): util.List[DataFrame] = {
    val all = batches.tailMap(batch, false).values.asScala.toSeq.filter(_._2.nonEmpty)
    val frames = all.foldLeft(Vector.empty[(StructType, Seq[Row])]) {
      case (init :+ ((last, before)), (schema, rows)) if last == schema => init :+ (last -> (before ++ rows))
      case (before, next) => before :+ next
    }
    frames.map { case (schema, rows) => session.createDataFrame(rows.asJava, schema) }.asJava
  }

  /** The last batch that gave its rows; -1: none. */
  def lastBatch: Long = Option(batches.lastEntry).fold(-1L)(_.getKey)

  /** One text for each batch that ran again and gave other rows: a sink that had taken the first ones is wrong. */
  def changes: util.List[String] = new util.ArrayList(changed.values)
}
