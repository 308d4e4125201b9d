package io.tailrace.watermark

import io.tailrace.checkpoint.CheckedBytes

/** What one batch has left of a source's progress: format 3, big-endian, see `jvm/docs/formats.md`.
  *
  * {{{
  *   "TRHP"(4) format(4) place(4 + n) previous batch(8) low watermark(8) the one before it(8) upstream(8)
  *   roster(8) forgotten(8)
  *   entries(4), an entry: name(4 + n) time(8) rows ahead of the clock(8)
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 1 has no place, and 2 neither the roster nor the rows of those who are forgotten.
  *
  * @param previous the batch whose file this one adds to; -1: none, it holds all hosts
  * @param low      microseconds, after the batch
  * @param lowBefore the one that the batch began with
  * @param upstream  the least completeness that a stamp had, whole where there are none
  * @param roster    the version of the roster that the batch was run with; none: the file doesn't say
  * @param forgottenFuture rows ahead of the clock of hosts that aren't in the table any more
  */
final case class ProgressFile(
    previous: Long,
    low: Long,
    lowBefore: Long,
    upstream: Completeness,
    roster: Option[String],
    forgottenFuture: Long
)

object ProgressFile {
  private val Layout =
    new CheckedBytes(0x54524850, "a table of hosts", oldest = 1, newest = 3, placedSince = 2)

  /** @param place source and batch that it is of
    * @param hosts those that go into the file
    */
  def encode(
      place: String,
      file: ProgressFile,
      table: HostTable,
      hosts: Iterator[Int],
      count: Int
  ): Array[Byte] =
    Layout.encode(place) { out =>
      out.writeLong(file.previous)
      out.writeLong(file.low)
      out.writeLong(file.lowBefore)
      out.writeLong(file.upstream.units)
      out.writeLong(java.lang.Long.parseUnsignedLong(file.roster.getOrElse("0"), 16))
      out.writeLong(file.forgottenFuture)
      HostEntries.write(out, table, hosts, count)
    }

  /** @param name  of the file, for errors
    * @param place source and batch that it must be of
    * @param into  gets the entries
    */
  def decode(bytes: Array[Byte], name: String, place: String, into: HostTable): ProgressFile =
    Layout.decode(bytes, name, place) { (format, in) =>
      val (previous, low, lowBefore) = (in.getLong(), in.getLong(), in.getLong())
      val upstream = Completeness.ofUnits(in.getLong())
      val roster = Option.when(format > 2)(f"${in.getLong()}%016x")
      val forgotten = if (format > 2) in.getLong() else 0L
      HostEntries.read(in, into)
      ProgressFile(previous, low, lowBefore, upstream, roster, forgotten)
    }
}
