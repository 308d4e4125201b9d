package io.tailrace.why

import scala.util.Try

import org.json4s.JsonAST.{JInt, JObject}
import org.json4s.jackson.JsonMethods.parse

import io.tailrace.checkpoint.{BegunBatch, SparkCheckpoint}
import io.tailrace.common.EventTimes.iso

/** Which partitions of topics have stood still, by the offsets in Spark's log: one of them may hold a watermark.
  *
  * {{{
  *   offsets/6   {"clicks":{"0":40,"1":70}}
  *   offsets/7   {"clicks":{"0":90,"1":70}}      clicks-1 has stood still since batch 6, or for longer
  * }}}
  */
private[why] object OffsetText {

  /** @param last the newest batch that has completed */
  def of(spark: SparkCheckpoint, last: Long): Seq[String] = {
    val batches = spark.begunBatches.filter(_ <= last)
    val begun = batches.flatMap(batch => spark.begun(batch).map(batch -> _))
    begun.lastOption.toSeq.flatMap { case (_, newest) =>
      newest.sources.indices.flatMap(source => still(begun, source))
    }
  }

  private def still(begun: Seq[(Long, BegunBatch)], source: Int): Option[String] = {
    val read = begun.map { case (batch, entry) =>
      (batch, entry.timeMs, entry.sources.lift(source).fold(Map.empty[String, BigInt])(offsets))
    }
    val (now, earlier) = (read.last._3, read.init)
    // Since when each partition has had its offset.
    val since = now.map { case (partition, offset) =>
      val same = earlier.reverseIterator.takeWhile(_._3.get(partition).contains(offset)).toSeq
      partition -> same.lastOption
    }
    val standing = since.collect { case (partition, Some((batch, timeMs, _))) => (partition, batch, timeMs) }
    Option.when(standing.nonEmpty && standing.size < now.size) {
      val named = standing.toSeq.sortBy { case (partition, batch, _) => (batch, partition) }.take(Named)
      val texts = named.map { case (partition, batch, timeMs) =>
        s"$partition since batch $batch of ${iso(timeMs * 1000)} or before"
      }
      val more = if (standing.size > Named) s", and ${standing.size - Named} more" else ""
      s"Nothing was read of ${texts.mkString(", ")}$more, while other partitions of the topic gave records. What " +
        "they have that wasn't read is unknown here."
    }
  }

  /** The offsets of Kafka's source, by topic and partition; none of another source. */
  private def offsets(text: String): Map[String, BigInt] = Try(parse(text)).toOption
    .collect { case JObject(topics) =>
      for {
        (topic, JObject(partitions)) <- topics
        (partition, JInt(offset)) <- partitions
        if partition.toIntOption.nonEmpty
      } yield s"$topic-$partition" -> offset
    }
    .fold(Map.empty[String, BigInt])(_.toMap)

  private val Named = 5
}
