package io.tailrace.replay

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.checkpoint.Checksum
import io.tailrace.common.Errors

/** A table of marks as a file (format 2, `jvm/docs/formats.md`), big-endian; a text is its length in bytes(4) and its UTF-8
  * bytes:
  *
  * {{{
  *   "TRRM"(4) format(4) place(a text) disorder(4) homes(4) each home(a text) entries(4)
  *   an entry: producer id(8) partition(4) home(4) mark(8) gaps(8) last seen(8), then the window, 8 bytes for each 64 of `disorder`
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 1 has neither place nor homes, and no home in an entry.
  */
object MarkFile {
  private val Magic = 0x5452524d
  private val Oldest = 1
  private val Format = 2
  private val LeastLength = 20
  private val ChecksumLength = 4

  private def entryLength(format: Int, disorder: Int): Int =
    (if (format == 1) 36 else 40) + 8 * MarkTable.wordsFor(disorder)

  /** @param place where the file stands: another one's isn't read in its place */
  def encode(table: MarkTable, place: String): Array[Byte] = {
    val words = MarkTable.wordsFor(table.disorder)
    val entries = Math.multiplyExact(table.size, entryLength(Format, table.disorder))
    val texts = (place +: (0 until table.homes.size).flatMap(table.homes.name(_))).map(_.getBytes(UTF_8))
    val head = LeastLength + texts.map(_.length + 4).sum + ChecksumLength
    val out = ByteBuffer.allocate(Math.addExact(entries, head))
    out.putInt(Magic).putInt(Format).putInt(texts.head.length).put(texts.head)
    out.putInt(table.disorder).putInt(table.homes.size)
    texts.tail.foreach(text => out.putInt(text.length).put(text))
    out.putInt(table.size)
    var entry = 0
    while (entry < table.size) {
      out.putLong(table.pid(entry)).putInt(table.partition(entry)).putInt(table.home(entry))
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
    * @param place where the file stands
    * @param table with the disorder of the query; a window that was written with another one is widened or cut
    * @param entry is told the number of each entry in the table
    */
  def decode(bytes: Array[Byte], name: String, place: String, table: MarkTable)(entry: Int => Unit): Unit = {
    if (bytes.length < LeastLength) throw corrupt(name, s"it has only ${bytes.length} bytes")
    val in = ByteBuffer.wrap(bytes)
    if (in.getInt() != Magic) throw corrupt(name, "it isn't a table of marks")
    val format = in.getInt()
    if (format < Oldest || format > Format) throw Errors.stateFormatUnsupported(name, format, Oldest, Format)
    if (Checksum.of(bytes, bytes.length - ChecksumLength) != in.getInt(bytes.length - ChecksumLength)) {
      throw corrupt(name, "its checksum doesn't fit its content")
    }
    if (format > 1) {
      val written = text(in, name)
      if (written != place) throw corrupt(name, s"it belongs to '$written', not to '$place'")
    }
    val written = in.getInt()
    val homes =
      if (format == 1) Array.emptyIntArray
      else Array.fill(count(in, name))(table.homes.of(text(in, name)))
    val entries = in.getInt()
    if (
      written < 0 || entries < 0 ||
      in.position() + ChecksumLength + entries.toLong * entryLength(format, written) != bytes.length
    ) throw corrupt(name, s"$entries entries don't make ${bytes.length} bytes")
    (0 until entries).foreach(_ => entry(read(in, format, written, homes, table)))
  }

  private def text(in: ByteBuffer, name: String): String = {
    val bytes = new Array[Byte](count(in, name))
    in.get(bytes)
    new String(bytes, UTF_8)
  }

  /** Of bytes or more. */
  private def count(in: ByteBuffer, name: String): Int = {
    val found = in.getInt()
    if (found < 0 || found > in.remaining()) throw corrupt(name, s"a length of $found doesn't fit into it")
    found
  }

  private def read(in: ByteBuffer, format: Int, written: Int, homes: Array[Int], table: MarkTable): Int = {
    val words = MarkTable.wordsFor(table.disorder)
    val entry = table.findOrAppend(in.getLong(), in.getInt())
    val home = if (format == 1) Homes.Unknown else in.getInt()
    table.setHome(entry, if (home >= 0 && home < homes.length) homes(home) else Homes.Unknown)
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
