package io.tailrace.testing

import java.util
import java.util.concurrent.{ConcurrentHashMap, ConcurrentSkipListMap, TimeUnit}
import java.util.{Base64, UUID}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.{
  MicroBatchStream,
  Offset,
  ReadLimit,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.tailrace.{ClockedQuery, PythonRows, RunClock}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
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
  @volatile private var movedMs = 0L
  @volatile private var eventTime = Option.empty[Long]

  /** The clock of the queries of this test, and of no others. Time also passes while the test doesn't move it: idle hosts
    * and partitions see that.
    */
  private[testing] object clock extends RunClock {
    override def nanos: Long = RunClock.System.nanos + TimeUnit.MILLISECONDS.toNanos(movedMs)
    override def wallMs: Long = nowMs
  }

  def clockMs: Long = nowMs

  /** Moves the clock and event time, as a row of that time in each stream would, without any output for such rows.
    * Each query sees it in its next batch. Neither goes back.
    */
  def moveTo(ms: Long): Unit = betweenBatches {
    movedMs += Math.min(Math.max(0, ms - nowMs), TestStreams.MostIdleMs)
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

  /** The part of one move that idle hosts and partitions see. A test may move by more years than nanoseconds can count. */
  private val MostIdleMs = TimeUnit.DAYS.toMillis(1)
}

/** A query of a test. Its rows are kept by batch, as an idempotent sink does. */
final class TestQuery(streams: TestStreams, session: SparkSession, checkpoint: String, mode: String) {
  // With the schema of the version of the query that gave them.
  private val batches = new ConcurrentSkipListMap[Long, (StructType, Seq[Row])]
  private val changed = new ConcurrentSkipListMap[Long, String]
  private var running: ClockedQuery = _

  /** Starts it, on its checkpoint. */
  def start(frame: DataFrame): Unit = {
    running =
      ClockedQuery.start(frame, checkpoint, streams.clock, modeOf(mode))((rows, batch) => take(rows, batch))
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

/** The rows of a stream that a test feeds. They stay as long as the test: queries, restarts and repeated
  * batches read them by number. They are in the driver, and go to tasks with their partition.
  *
  * {{{
  *   stage(1, 2)           seen by nobody
  *   flush                 0: 1 | 1: 2          a batch from 0 to 2
  *   stage(3), flush       0: 1 | 1: 2 | 2: 3   a batch from 2 to 3
  *   tick                                       a batch without rows, from 3 to 3
  * }}}
  *
  * @param planned is called within each batch that reads them, in the query's thread
  */
final class TestRows(val schema: StructType, val planned: () => Unit) extends AutoCloseable {
  val id: String = UUID.randomUUID.toString
  private val staged = new ArrayBuffer[UnsafeRow]
  private val rows = new ArrayBuffer[UnsafeRow]
  private var ticks = 0L
  TestRows.open.put(id, this)

  /** Keeps rows of this schema for the next [[flush]]: see [[PythonRows]]. No job of Spark's: a test adds rows as
    * often as it runs micro-batches, and a job takes as long as one.
    *
    * @param base64 pickled rows
    */
  def stage(base64: String): Unit = synchronized {
    staged ++= PythonRows.read(Base64.getDecoder.decode(base64), schema)
  }

  /** Makes the staged rows visible to queries. */
  def flush(): Unit = synchronized {
    rows ++= staged
    staged.clear()
  }

  /** Makes queries run a batch, with or without rows. */
  def tick(): Unit = synchronized { ticks += 1 }

  def end: Offset = synchronized(RowNumber(rows.size.toLong, ticks))

  def between(from: Long, until: Long): Array[UnsafeRow] = synchronized {
    rows.slice(from.toInt, until.toInt).toArray
  }

  override def close(): Unit = TestRows.open.remove(id)
}

object TestRows {
  private val open = new ConcurrentHashMap[String, TestRows]

  def of(id: String): TestRows =
    Option(open.get(id)).getOrElse(throw new IllegalStateException("the test of this stream has ended"))
}

/** The format of a stream of [[TestRows]]; its option `id` selects one. */
final class TestRowsProvider extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType =
    TestRows.of(options.get("id")).schema

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: util.Map[String, String]
  ): Table = new TestRowsTable(schema, new CaseInsensitiveStringMap(properties).get("id"))
}

private final class TestRowsTable(of: StructType, id: String) extends Table with SupportsRead {
  override def name: String = s"a test's stream $id"
  override def schema: StructType = of
  override def capabilities: util.Set[TableCapability] = Set(TableCapability.MICRO_BATCH_READ).asJava

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema: StructType = of
      override def toMicroBatchStream(checkpoint: String): MicroBatchStream = new TestRowsStream(id)
    }
}

private final case class RowNumber(row: Long, tick: Long) extends Offset {
  override def json: String = s"$row.$tick"
}

private final class TestRowsStream(id: String) extends MicroBatchStream with SupportsTriggerAvailableNow {
  // The end of the rows when a query with the trigger availableNow began.
  private var last = Option.empty[Offset]

  override def initialOffset: Offset = RowNumber(0, 0)
  override def latestOffset: Offset = last.getOrElse(TestRows.of(id).end)
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = latestOffset
  override def prepareForTriggerAvailableNow(): Unit = last = Some(TestRows.of(id).end)
  override def deserializeOffset(json: String): Offset = {
    val (row, tick) = json.splitAt(json.indexOf('.'))
    RowNumber(row.toLong, tick.drop(1).toLong)
  }
  override def commit(end: Offset): Unit = ()
  override def stop(): Unit = ()
  override def toString: String = "TestRows"

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = (start, end) match {
    case (RowNumber(from, _), RowNumber(until, _)) =>
      val rows = TestRows.of(id)
      rows.planned()
      Array(TestPartition(rows.between(from, until)))
    case other => throw new IllegalArgumentException(s"offsets of another stream: $other")
  }

  override def createReaderFactory: PartitionReaderFactory = TestRowsReader
}

private final case class TestPartition(rows: Array[UnsafeRow]) extends InputPartition

private object TestRowsReader extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
    case TestPartition(rows) =>
      new PartitionReader[InternalRow] {
        private var at = -1
        override def next(): Boolean = {
          at += 1
          at < rows.length
        }
        override def get(): InternalRow = rows(at)
        override def close(): Unit = ()
      }
    case other => throw new IllegalArgumentException(s"a partition of another stream: $other")
  }
}

/** Rows of a test's query as Arrow and Python have them.
  *
  * {{{
  *   s struct<a int NOT NULL>, null there   struct<a int>: Arrow lets a struct be null only where its fields may be
  *   i interval year to month               int: its months, because Python has no such type
  * }}}
  */
private[tailrace] object ReadableRows {

  def of(frame: DataFrame): DataFrame = {
    val fields = frame.schema.fields.toSeq
    // Columns of one name are allowed.
    val places = fields.indices.map(n => s"c$n")
    val columns = fields.zip(places).map { case (field, place) =>
      val months = changed(field.dataType, field.nullable, inMonths)
      val read = changed(months, field.nullable, asNumber)
      if (read == field.dataType) None else Some(col(place).cast(months).cast(read).as(place))
    }
    if (columns.forall(_.isEmpty)) frame
    else {
      val all = columns.zip(places).map { case (column, place) => column.getOrElse(col(place)) }
      frame.toDF(places: _*).select(all: _*).toDF(fields.map(_.name): _*)
    }
  }

  private def inMonths(kind: DataType): DataType = kind match {
    case _: YearMonthIntervalType => YearMonthIntervalType(YearMonthIntervalType.MONTH)
    case other => other
  }

  private def asNumber(kind: DataType): DataType = kind match {
    case _: YearMonthIntervalType => IntegerType
    case other => other
  }

  /** A type whose structs may be null only where their fields may be, and with each of its plain types changed.
    *
    * @param nullable whether its values may be null
    */
  private def changed(kind: DataType, nullable: Boolean, change: DataType => DataType): DataType =
    kind match {
      case StructType(fields) =>
        StructType(fields.map { field =>
          val may = nullable || field.nullable
          field.copy(dataType = changed(field.dataType, may, change), nullable = may)
        })
      case ArrayType(element, nulls) => ArrayType(changed(element, nulls, change), nulls)
      case MapType(key, value, nulls) =>
        MapType(changed(key, nullable = false, change), changed(value, nulls, change), nulls)
      case plain => change(plain)
    }
}
