package io.tailrace.replay

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** The bytes that name a record's origin: the producer that wrote it, and the partition and offset in
  * the producer's own source. Mostly they are the key of a Kafka record (`jvm/docs/formats.md`). 24 bytes,
  * big-endian:
  *
  * {{{
  *   FF 54 52 02   producer id(8) source partition(4) source offset(8)
  * }}}
  *
  * No text in UTF-8 begins with FF. Of other random keys of 24 bytes, one in 2^34 is mistaken for metadata. The
  * other form is the 20 bytes without the tag, which is SQE's: see [[isPlausible]].
  *
  * Partitions and offsets are never negative. So of two keys of one producer and partition, the greater one
  * in the order of bytes has the greater offset. Methods return null for null, because Spark's generated code
  * calls them.
  */
object RecordMetadata {
  val Tag = 0xff545202
  val TagLength = 4
  val Length = 24
  val UntaggedLength: Int = Length - TagLength
  private val PartitionAt = 8
  private val OffsetAt = 12

  /** Offsets are less than this: after a record with the greatest long, no later record of its origin could
    * pass. Nanoseconds since 1970 stay below it for another 90 years.
    */
  val OffsetLimit: Long = 1L << 62

  def isInRange(partition: Int, offset: Long): Boolean = partition >= 0 && offset >= 0 && offset < OffsetLimit

  /** @return null if the partition or the offset is out of range */
  def encode(producerId: Long, partition: Int, offset: Long): Array[Byte] =
    if (!isInRange(partition, offset)) null
    else ByteBuffer.allocate(Length).putInt(Tag).putLong(producerId).putInt(partition).putLong(offset).array

  /** The same without the tag, as SQE's replay filter reads them. */
  def encodeUntagged(producerId: Long, partition: Int, offset: Long): Array[Byte] =
    if (!isInRange(partition, offset)) null
    else ByteBuffer.allocate(UntaggedLength).putLong(producerId).putInt(partition).putLong(offset).array

  /** True if 20 bytes without a tag are metadata rather than another key. Text never is: its bytes are 0x20 or
    * more where metadata has the first byte of the partition, which is 0, and the first byte of the offset.
    */
  def isPlausible(partition: Int, offset: Long): Boolean = (partition >>> 24) == 0 && (offset >>> 61) == 0

  /** True if these bytes are metadata, of one form or the other. False for null. */
  def isValid(bytes: Array[Byte]): Boolean = bytes != null && {
    if (bytes.length == Length) {
      ByteBuffer.wrap(bytes).getInt(0) == Tag && isInRange(partition(bytes), offset(bytes))
    } else bytes.length == UntaggedLength && partition(bytes) >= 0 && offset(bytes) >= 0
  }

  private def start(bytes: Array[Byte]): Int = bytes.length - UntaggedLength

  def producerId(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(start(bytes))
  def partition(bytes: Array[Byte]): Int = ByteBuffer.wrap(bytes).getInt(start(bytes) + PartitionAt)
  def offset(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(start(bytes) + OffsetAt)

  /** The metadata with the greater offset, of one producer and partition. Either may be null.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_METADATA_MIXED if they are of two producers
    *                                                   or partitions
    */
  def later(a: Array[Byte], b: Array[Byte]): Array[Byte] =
    if (a == null) b
    else if (b == null) a
    else if (producerId(a) != producerId(b) || partition(a) != partition(b)) {
      throw MetadataErrors.mixed(describe(a), describe(b))
    } else if (offset(a) >= offset(b)) a
    else b

  private def describe(bytes: Array[Byte]): String =
    s"producer ${producerId(bytes)}, partition ${partition(bytes)}"
}

/** Makes producer ids of 64 bits that any program can compute: the first eight bytes, big-endian, of a
  * SHA-256 over query, stream, brokers, path and epoch. Each part goes in as its length in bytes (4 bytes,
  * big-endian) and its UTF-8 bytes. Thanks to the lengths ("ab", "c") and ("a", "bc") are two producers.
  */
object ProducerIds {

  /** @param brokers a list separated by commas, in any order
    * @param epoch   "" unless the source was created again under the same name
    */
  def hash(query: String, stream: String, brokers: String, path: String, epoch: String): Long = {
    val digest = MessageDigest.getInstance("SHA-256")
    Seq(query, stream, ordered(brokers), path, epoch).foreach { part =>
      val bytes = part.getBytes(UTF_8)
      digest.update(ByteBuffer.allocate(4).putInt(bytes.length).array)
      digest.update(bytes)
    }
    ByteBuffer.wrap(digest.digest()).getLong
  }

  /** Without spaces and doubles, sorted: a user may write the list in another order later. */
  private def ordered(brokers: String): String =
    brokers.split(',').iterator.map(_.trim).filter(_.nonEmpty).toSeq.distinct.sorted.mkString(",")
}

/** The errors of a replay filter that runs, and of its marks. */
object ReplayErrors {
  def marksIncomplete(directory: String, batch: Long, name: String): TailraceStateException =
    marks("TAILRACE_REPLAY_MARKS_INCOMPLETE", directory, batch, name)

  def marksMissing(directory: String, batch: Long, name: String): TailraceStateException =
    marks("TAILRACE_REPLAY_MARKS_MISSING", directory, batch, name)

  private def marks(condition: String, directory: String, batch: Long, name: String) =
    stateError(condition, null, "directory" -> directory, "batch" -> batch, "name" -> name)

  /** @param first  a partition that records of the origin were read from
    * @param second another partition
    */
  def originSplit(pid: Long, partition: Int, first: String, second: String): TailraceStateException = {
    val places = "places" -> Seq(first, second).filter(_.nonEmpty).mkString(" and ")
    stateError("TAILRACE_REPLAY_ORIGIN_SPLIT", null, "pid" -> pid, "partition" -> partition, places)
  }

  /** @param from where records of the origin were read from before this batch
    * @param to   where they are now
    */
  def originMoved(
      pid: Long,
      partition: Int,
      offset: Long,
      mark: Long,
      from: String,
      to: String
  ): TailraceStateException =
    stateError(
      "TAILRACE_REPLAY_ORIGIN_MOVED",
      null,
      "pid" -> pid,
      "partition" -> partition,
      "offset" -> offset,
      "mark" -> mark,
      "from" -> from,
      "to" -> to
    )
}

/** The errors of queries that write records' metadata. */
object MetadataErrors {
  def merge(): TailraceAnalysisException = refuse("TAILRACE_METADATA_MERGE")

  /** @param reason the operator that brings rows out of order */
  def order(reason: String): TailraceAnalysisException = refuse("TAILRACE_METADATA_ORDER", "reason" -> reason)

  def partition(reason: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_PARTITION", "reason" -> reason)

  /** @param argument that would distinguish them */
  def shared(reason: String, argument: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_SHARED", "reason" -> reason, "argument" -> argument)

  def topicAnew(topic: String, known: String, found: String): TailraceAnalysisException =
    refuse("TAILRACE_METADATA_TOPIC_ANEW", "topic" -> topic, "known" -> known, "found" -> found)

  def mixed(first: String, second: String): TailraceStateException =
    stateError("TAILRACE_METADATA_MIXED", null, "first" -> first, "second" -> second)
}
