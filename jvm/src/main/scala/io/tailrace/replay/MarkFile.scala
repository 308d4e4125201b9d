package io.tailrace.replay

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.checkpoint.CheckedBytes
import io.tailrace.common.Errors

/** A table of marks as a file (format 2, `jvm/docs/formats.md`), big-endian; a text is its length in bytes(4)
  * and its UTF-8 bytes:
  *
  * {{{
  *   "TRRM"(4) format(4) place(a text) disorder(4) homes(4) each home(a text) entries(4)
  *   an entry: producer id(8) partition(4) home(4) mark(8) gaps(8) last seen(8),
  *             then the window, 8 bytes for each 64 of `disorder`
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 1 has neither place nor homes, and no home in an entry.
  */
object MarkFile {
  private val Layout =
    new CheckedBytes(0x5452524d, "a table of marks", oldest = 1, newest = 2, placedSince = 2)

  private def entryLength(disorder: Int): Int = 40 + 8 * MarkTable.wordsFor(disorder)

  private def homes(table: MarkTable): Seq[String] = (0 until table.homes.size).flatMap(table.homes.name(_))

  /** Exact: a table may take most of the memory that there is, and is not copied. */
  private[replay] def bodyLength(table: MarkTable): Int = {
    val texts = homes(table).map(4 + _.getBytes(UTF_8).length).sum
    Math.addExact(12 + texts, Math.multiplyExact(table.size, entryLength(table.disorder)))
  }

  /** @param place of the file: a file of another place is refused */
  def encode(table: MarkTable, place: String): Array[Byte] = {
    val words = MarkTable.wordsFor(table.disorder)
    val row = ByteBuffer.allocate(entryLength(table.disorder))
    Layout.encode(place, bodyLength(table)) { out =>
      out.writeInt(table.disorder)
      out.writeInt(table.homes.size)
      homes(table).foreach(CheckedBytes.writeText(out, _))
      out.writeInt(table.size)
      var entry = 0
      while (entry < table.size) {
        row.clear()
        row.putLong(table.pid(entry)).putInt(table.partition(entry)).putInt(table.home(entry))
        row.putLong(table.mark(entry)).putLong(table.gaps(entry)).putLong(table.lastSeenMs(entry))
        var word = 0
        while (word < words) {
          row.putLong(table.window(entry, word))
          word += 1
        }
        out.write(row.array)
        entry += 1
      }
    }
  }

  /** Replaces the entries of a table by those of a file.
    *
    * @param name  of the file, for errors
    * @param place where the file stands
    * @param table with the disorder of the query; a window that was written with another one is widened or
    *              cut
    * @param entry is told the number of each entry in the table
    */
  def decode(bytes: Array[Byte], name: String, place: String, table: MarkTable)(entry: Int => Unit): Unit =
    Layout.decode(bytes, name, place) { (format, in) =>
      val written = in.getInt()
      val homes =
        if (format == 1) Array.emptyIntArray
        else Array.fill(CheckedBytes.readCount(in))(table.homes.of(CheckedBytes.readText(in)))
      val entries = in.getInt()
      if (written < 0 || entries < 0 || in.remaining != entries.toLong * lengthIn(format, written))
        throw Errors.stateFileCorrupt(name, s"$entries entries don't make ${bytes.length} bytes")
      (0 until entries).foreach(_ => entry(read(in, format, written, homes, table)))
    }

  private def lengthIn(format: Int, disorder: Int): Int =
    if (format == 1) entryLength(disorder) - 4 else entryLength(disorder)

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
    // An offset further back than the old `disorder` was taken for a replay then, so it counts as passed.
    (written until table.disorder).foreach { bit =>
      table.setWindow(entry, bit / 64, table.window(entry, bit / 64) | (1L << (bit % 64)))
    }
    entry
  }
}
