package io.tailrace.testing

import java.util
import java.util.concurrent.ConcurrentSkipListMap

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.tailrace.ClockedQuery
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{DataFrame, Dataset, Row, SparkSession}

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

  def clockMs: Long = nowMs

  /** The clock doesn't go back. */
  private[testing] def moveTo(ms: Long): Unit = nowMs = Math.max(nowMs, ms)

  /** @param schema in JSON */
  def source(schema: String): TestRows = {
    val source = new TestRows(DataType.fromJson(schema).asInstanceOf[StructType])
    sources += source
    source
  }

  /** Lets all queries run a batch, with rows or without. */
  def tick(): Unit = sources.foreach(_.tick())

  /** Lets all queries see what was staged. */
  def flush(): Unit = sources.foreach(_.flush())

  /** @param mode "append", "update" or "complete" */
  def query(frame: DataFrame, checkpoint: String, mode: String): TestQuery = {
    val query = new TestQuery(this, session, checkpoint, mode)
    queries += query
    query.start(frame)
    query
  }

  override def close(): Unit = {
    queries.foreach(_.stop())
    sources.foreach(_.close())
  }
}

/** A query of a test. Its rows are kept by batch, as an idempotent sink does. */
final class TestQuery(streams: TestStreams, session: SparkSession, checkpoint: String, mode: String) {
  private val batches = new ConcurrentSkipListMap[Long, Seq[Row]]
  private val changed = new ConcurrentSkipListMap[Long, String]
  private var running: ClockedQuery = _
  // Event time to be moved to, by the batch that comes.
  @volatile private var seen = Option.empty[Long]
  private var schema: StructType = _

  /** Starts it, on its checkpoint. */
  def start(frame: DataFrame): Unit = {
    schema = frame.schema
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

  private def take(frame: Dataset[Row], batch: Long): Unit = {
    val rows = frame.collect().toSeq
    // Between batches it would be too late: Spark has asked whether the next one is needed.
    seen.foreach(running.seeEventTime)
    seen = None
    val before = Option(batches.put(batch, rows))
    def counts(of: Seq[Row]) = of.groupMapReduce(identity)(_ => 1)(_ + _)
    before.filter(counts(_) != counts(rows)).foreach { first =>
      changed.put(batch, s"batch $batch gave ${first.size} rows, and others when it ran again: ${rows.size}")
    }
  }

  def stop(): Unit = running.query.stop()

  /** Rows in the state of each operator, by the operator's name, after the last batch of this start. */
  def waiting: util.Map[String, Long] = {
    // An idle query reports too, and without operators at its start.
    val operators = running.query.recentProgress.map(_.stateOperators).filter(_.nonEmpty).lastOption
    operators.toSeq.flatten.groupMapReduce(_.operatorName)(_.numRowsTotal)(_ + _).asJava
  }

  /** Lets it see what was added to the sources, as one batch, and waits until nothing is left to do. */
  def run(): Unit = {
    running.betweenBatches(streams.flush())
    running.query.processAllAvailable()
  }

  /** Moves the clock, and event time with it: as a row of that time in each stream would, of which nothing
    * comes out. Where hosts or stamps make the watermark, only their rows can move it.
    */
  def advance(ms: Long): Unit = {
    run()
    running.betweenBatches {
      streams.moveTo(ms)
      if (!hasOwnWatermark(running.logicalPlan)) seen = Some(ms)
      streams.tick()
    }
    running.query.processAllAvailable()
  }

  private def hasOwnWatermark(plan: LogicalPlan): Boolean = plan.exists {
    case _: HostProgress => true
    case _ => false
  }

  /** Milliseconds; 0: none yet. */
  def watermarkMs: Long = running.watermarkMs

  /** Rows of the batches behind one, in their order. */
  def rowsAfter(batch: Long): DataFrame =
    session.createDataFrame(batches.tailMap(batch, false).values.asScala.flatten.toSeq.asJava, schema)

  /** The last batch that gave its rows; -1: none. */
  def lastBatch: Long = Option(batches.lastEntry).fold(-1L)(_.getKey)

  /** One text for each batch that ran again and gave other rows: a sink that had taken the first ones is wrong. */
  def changes: util.List[String] = new util.ArrayList(changed.values)
}
