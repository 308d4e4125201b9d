package io.tailrace.progress

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, IOException}

import io.tailrace.common.{Checksum, Errors}

/** What one batch has left of a source's progress: format 1, big-endian, see `jvm/docs/formats.md`.
  *
  * {{{
  *   "TRHP"(4) format(4) previous batch(8) low watermark(8) the one before it(8) upstream(8)
  *   entries(4), an entry: name(4 + n) time(8) rows ahead of the clock(8)
  *   CRC-32C of all before(4)
  * }}}
  *
  * @param previous the batch whose file this one adds to; -1: none, it holds all hosts
  * @param low      microseconds, after the batch
  * @param lowBefore the one that the batch began with
  * @param upstream  the least completeness that a stamp had, whole where there are none
  */
final case class ProgressFile(previous: Long, low: Long, lowBefore: Long, upstream: Completeness)

object ProgressFile {
  private val Magic = 0x54524850
  private val Format = 1
  private val ChecksumLength = 4

  /** @param hosts those that go into the file */
  def encode(file: ProgressFile, table: HostTable, hosts: Iterator[Int], count: Int): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(Magic)
    out.writeInt(Format)
    out.writeLong(file.previous)
    out.writeLong(file.low)
    out.writeLong(file.lowBefore)
    out.writeLong(file.upstream.units)
    HostEntries.write(out, table, hosts, count)
    val body = bytes.toByteArray
    out.writeInt(Checksum.of(body, body.length))
    bytes.toByteArray
  }

  /** @param name of the file, for errors
    * @param into gets the entries
    */
  def decode(bytes: Array[Byte], name: String, into: HostTable): ProgressFile =
    try {
      val in = new DataInputStream(new ByteArrayInputStream(bytes))
      if (in.readInt() != Magic) throw Errors.stateFileCorrupt(name, "it isn't a table of hosts")
      val format = in.readInt()
      if (format != Format) throw Errors.stateFormatUnsupported(name, format, Format, Format)
      val body = bytes.length - ChecksumLength
      val written = new DataInputStream(new ByteArrayInputStream(bytes, body, ChecksumLength)).readInt()
      if (Checksum.of(bytes, body) != written) {
        throw Errors.stateFileCorrupt(name, "its checksum doesn't fit its content")
      }
      val file =
        ProgressFile(in.readLong(), in.readLong(), in.readLong(), Completeness.ofUnits(in.readLong()))
      HostEntries.read(in, into)
      if (in.available != ChecksumLength)
        throw Errors.stateFileCorrupt(name, s"${in.available} bytes are left over")
      file
    } catch { case e: IOException => throw Errors.stateFileCorrupt(name, "it ends too soon", e) }
}
