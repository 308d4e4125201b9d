package io.tailrace.testkit

import java.util

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.unsafe.types.UTF8String
import org.json4s.jackson.Serialization

/** Topics in memory that look like Spark's Kafka source: its offsets, its columns `topic` and `partition`, and a source that
  * lists partitions without records. A test writes and removes records' partitions, and says up to where they can be read.
  */
final class FakeTopics(val name: String) {
  private val records = mutable.TreeMap.empty[(String, Int), mutable.ArrayBuffer[FakeRecord]]
  private val readable = mutable.Map.empty[(String, Int), Long]

  /** A batch reads no more records of a partition. */
  @volatile var mostPerBatch = Long.MaxValue

  def add(topic: String, partition: Int, rows: FakeRecord*): Unit = synchronized {
    records.getOrElseUpdate((topic, partition), mutable.ArrayBuffer.empty) ++= rows: Unit
  }

  def remove(topic: String, partition: Int): Unit = synchronized(records.remove((topic, partition)): Unit)

  /** Records from this offset on can't be read; none: all can. */
  def stall(topic: String, partition: Int, from: Option[Long]): Unit = synchronized {
    from match {
      case Some(offset) => readable((topic, partition)) = offset
      case None => readable.remove((topic, partition)): Unit
    }
  }

  /** @return the newest offsets, and those up to which records can be read */
  private[testkit] def ends: (FakeOffset, FakeOffset) = synchronized {
    val all = records.view.mapValues(_.size.toLong).toMap
    val can = all.map { case (p, end) => p -> Math.min(end, readable.getOrElse(p, end)) }
    (FakeOffset(all), FakeOffset(can))
  }

  private[testkit] def slice(topic: String, partition: Int, from: Long, until: Long): Seq[FakeRecord] =
    synchronized(records((topic, partition)).slice(from.toInt, until.toInt).toSeq)

  def frame(spark: SparkSession): DataFrame = {
    FakeTopics.all.put(name, this)
    spark.readStream.format(classOf[FakeTopicsProvider].getName).option("name", name).load()
  }
}

/** @param at microseconds */
final case class FakeRecord(k: String, at: Long, id: Long)

object FakeTopics {
  private[testkit] val all = new java.util.concurrent.ConcurrentHashMap[String, FakeTopics]

  val Schema: StructType = new StructType()
    .add("topic", StringType)
    .add("partition", IntegerType)
    .add("offset", LongType)
    .add("k", StringType)
    .add("at", TimestampType)
    .add("id", LongType)
}

final case class FakeOffset(ends: Map[(String, Int), Long]) extends Offset {
  override def json(): String =
    Serialization.write(
      ends.toSeq.groupMap(_._1._1) { case ((_, p), end) => p.toString -> end }.view.mapValues(_.toMap).toMap
    )(org.json4s.DefaultFormats)
}

final class FakeTopicsProvider extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = FakeTopics.Schema
  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: util.Map[String, String]
  ): Table = new FakeTopicsTable(properties.get("name"))
}

private final class FakeTopicsTable(topics: String) extends Table with SupportsRead {
  override def name(): String = topics
  override def schema(): StructType = FakeTopics.Schema
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.MICRO_BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = FakeTopics.Schema
      override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
        new FakeTopicsStream(FakeTopics.all.get(topics))
    }
}

private final class FakeTopicsStream(topics: FakeTopics)
    extends MicroBatchStream
    with SupportsTriggerAvailableNow {
  // As Kafka's source, which has nothing to say before Spark has asked it for the end of a batch.
  private var latest: FakeOffset = _

  override def prepareForTriggerAvailableNow(): Unit = ()
  override def initialOffset(): Offset = FakeOffset(topics.ends._1.ends.view.mapValues(_ => 0L).toMap)
  override def latestOffset(): Offset = topics.ends._2
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val before = start.asInstanceOf[FakeOffset].ends
    val (all, readable) = topics.ends
    latest = all
    FakeOffset(readable.ends.map { case (p, end) =>
      val from = before.getOrElse(p, 0L)
      // A partition never goes back.
      p -> Math.max(from, if (end - from > topics.mostPerBatch) from + topics.mostPerBatch else end)
    })
  }
  override def reportLatestOffset(): Offset =
    if (latest == null) throw new NullPointerException("nobody has asked for the latest offset") else latest
  override def deserializeOffset(json: String): Offset = {
    import org.json4s._
    val parsed = jackson.JsonMethods.parse(json) match {
      case JObject(all) =>
        for {
          case (topic, JObject(partitions)) <- all
          case (partition, JInt(end)) <- partitions
        } yield (topic, partition.toInt) -> end.toLong
      case _ => Nil
    }
    FakeOffset(parsed.toMap)
  }
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val before = start.asInstanceOf[FakeOffset].ends
    end
      .asInstanceOf[FakeOffset]
      .ends
      .toArray
      .sorted
      .map { case ((topic, partition), until) =>
        FakeSlice(topics.name, topic, partition, before.getOrElse((topic, partition), 0L), until)
      }
      .filter(s => s.until > s.from)
      .toArray[InputPartition]
  }
  override def createReaderFactory(): PartitionReaderFactory = new FakeReaders
  override def commit(end: Offset): Unit = ()
  override def stop(): Unit = ()
}

private final case class FakeSlice(name: String, topic: String, partition: Int, from: Long, until: Long)
    extends InputPartition

private final class FakeReaders extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val slice = partition.asInstanceOf[FakeSlice]
    val rows = FakeTopics.all.get(slice.name).slice(slice.topic, slice.partition, slice.from, slice.until)
    new PartitionReader[InternalRow] {
      private var at = -1
      override def next(): Boolean = {
        at += 1
        at < rows.size
      }
      override def get(): InternalRow = InternalRow(
        UTF8String.fromString(slice.topic),
        slice.partition,
        slice.from + at,
        UTF8String.fromString(rows(at).k),
        rows(at).at,
        rows(at).id
      )
      override def close(): Unit = ()
    }
  }
}
