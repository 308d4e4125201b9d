package io.tailrace.replay

import java.nio.ByteBuffer

import io.tailrace.common.{Checksum, Errors}

/** A table of marks as a file (format 1, `jvm/docs/formats.md`), big-endian:
  *
  * {{{
  *   "TRRM"(4) format(4) disorder(4) entries(4)
  *   an entry: producer id(8) partition(4) mark(8) gaps(8) last seen(8), then the window, 8 bytes for each 64 of `disorder`
  *   CRC-32C of all before(4)
  * }}}
  */
object MarkFile {
  private val Magic = 0x5452524d
  private val Format = 1
  private val HeaderLength = 16
  private val ChecksumLength = 4

  private def entryLength(disorder: Int): Int = 36 + 8 * MarkTable.wordsFor(disorder)

  def encode(table: MarkTable): Array[Byte] = {
    val words = MarkTable.wordsFor(table.disorder)
    val entries = Math.multiplyExact(table.size, entryLength(table.disorder))
    val out = ByteBuffer.allocate(Math.addExact(entries, HeaderLength + ChecksumLength))
    out.putInt(Magic).putInt(Format).putInt(table.disorder).putInt(table.size)
    var entry = 0
    while (entry < table.size) {
      out.putLong(table.pid(entry)).putInt(table.partition(entry))
      out.putLong(table.mark(entry)).putLong(table.gaps(entry)).putLong(table.lastSeenMs(entry))
      var word = 0
      while (word < words) {
        out.putLong(table.window(entry, word))
        word += 1
      }
      entry += 1
    }
    out.putInt(Checksum.of(out.array, out.position()))
    out.array
  }

  /** Puts what a file says of its origins in the place of what a table says of them.
    *
    * @param name  of the file, for errors
    * @param table with the disorder of the query; a window that was written with another one is widened or cut
    * @param entry is told the number of each entry in the table
    */
  def decode(bytes: Array[Byte], name: String, table: MarkTable)(entry: Int => Unit): Unit = {
    if (bytes.length < HeaderLength + ChecksumLength)
      throw corrupt(name, s"it has only ${bytes.length} bytes")
    val in = ByteBuffer.wrap(bytes)
    if (in.getInt() != Magic) throw corrupt(name, "it isn't a table of marks")
    val format = in.getInt()
    if (format != Format) throw Errors.stateFormatUnsupported(name, format, Format, Format)
    if (Checksum.of(bytes, bytes.length - ChecksumLength) != in.getInt(bytes.length - ChecksumLength)) {
      throw corrupt(name, "its checksum doesn't fit its content")
    }
    val written = in.getInt()
    val count = in.getInt()
    if (
      written < 0 || count < 0 ||
      HeaderLength + ChecksumLength + count.toLong * entryLength(written) != bytes.length
    ) throw corrupt(name, s"$count entries don't make ${bytes.length} bytes")
    (0 until count).foreach(_ => entry(read(in, written, table)))
  }

  private def read(in: ByteBuffer, written: Int, table: MarkTable): Int = {
    val words = MarkTable.wordsFor(table.disorder)
    val entry = table.findOrAppend(in.getLong(), in.getInt())
    table.set(entry, in.getLong(), in.getLong(), in.getLong())
    (0 until Math.max(words, MarkTable.wordsFor(written))).foreach { word =>
      val bits = if (word < MarkTable.wordsFor(written)) in.getLong() else 0L
      if (word < words) table.setWindow(entry, word, bits)
    }
    // What was further back than records could be late has passed, as far as this table knows: it was a replay then.
    (written until table.disorder).foreach { bit =>
      table.setWindow(entry, bit / 64, table.window(entry, bit / 64) | (1L << (bit % 64)))
    }
    entry
  }

  private def corrupt(name: String, reason: String): Throwable = Errors.stateFileCorrupt(name, reason)
}
