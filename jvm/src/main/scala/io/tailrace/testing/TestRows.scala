package io.tailrace.testing

import java.util
import java.util.concurrent.ConcurrentHashMap
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
import org.apache.spark.sql.tailrace.PythonRows
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

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

  /** Lets queries see the staged rows. */
  def flush(): Unit = synchronized {
    rows ++= staged
    staged.clear()
  }

  /** Lets queries run a batch, with rows or without. */
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

/** The format of a stream of [[TestRows]]; its option `id` says which. */
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
  // What was there when a query with the trigger availableNow began.
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
