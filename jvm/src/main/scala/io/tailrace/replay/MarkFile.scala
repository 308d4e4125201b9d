package io.tailrace.replay

import java.io.{DataOutputStream, OutputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{BufferUnderflowException, ByteBuffer}

import io.tailrace.checkpoint.{CheckedBytes, ExactBytes}

/** Tables of marks as a file (format 3, `jvm/docs/formats.md`), big-endian; a text is its length in bytes(4)
  * and its UTF-8 bytes:
  *
  * {{{
  *   "TRRM"(4) format(4) place(a text) tables(4), each of them:
  *   disorder(4) homes(4) each home(a text) entries(4)
  *   an entry: producer id(8) partition(4) home(4) mark(8) gaps(8) last seen(8),
  *             then the window, 8 bytes for each 64 of `disorder`
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 2 has one table, and not how many. Format 1 has neither place nor homes, and no home in an entry. A
  * task sends its marks to the driver as such tables, which are put into the file as they come.
  */
object MarkFile {
  private val Layout =
    new CheckedBytes(0x5452524d, "a table of marks", oldest = 1, newest = 3, placedSince = 2)

  private[replay] def entryLength(disorder: Int): Int = 40 + 8 * MarkTable.wordsFor(disorder)

  private def homes(table: MarkTable): Seq[String] = (0 until table.homes.size).flatMap(table.homes.name(_))

  /** Exact: a table may take most of the memory that there is, and is not copied. */
  private[replay] def tableLength(table: MarkTable, entries: Int, disorder: Int): Int = {
    val texts = homes(table).map(4 + _.getBytes(UTF_8).length).sum
    Math.addExact(12 + texts, Math.multiplyExact(entries, entryLength(disorder)))
  }

  /** Writes a table as a file, without its bytes in memory: there may be millions of marks.
    *
    * @param place of the file: a file of another place is refused
    */
  def write(to: OutputStream, table: MarkTable, place: String): Unit = Layout.write(to, place) { out =>
    out.writeInt(1)
    write(out, table, 0, table.size, table.disorder)
  }

  /** @param tables as [[encodeTable]] gives them
    * @param place  of the file
    */
  def encode(tables: Seq[Array[Byte]], place: String): Array[Byte] =
    Layout.encode(place, tables.foldLeft(4)((sum, table) => Math.addExact(sum, table.length))) { out =>
      out.writeInt(tables.size)
      tables.foreach(out.write)
    }

  /** Some entries of a table as a table of their own.
    *
    * @param disorder of the new table: the table's, or 0 to leave its windows out
    */
  def encodeTable(table: MarkTable, from: Int, until: Int, disorder: Int): Array[Byte] = {
    val bytes = new ExactBytes(tableLength(table, until - from, disorder))
    write(new DataOutputStream(bytes), table, from, until, disorder)
    bytes.content
  }

  private def write(out: DataOutputStream, table: MarkTable, from: Int, until: Int, disorder: Int): Unit = {
    val words = MarkTable.wordsFor(disorder)
    val row = ByteBuffer.allocate(entryLength(disorder))
    out.writeInt(disorder)
    out.writeInt(table.homes.size)
    homes(table).foreach(CheckedBytes.writeText(out, _))
    out.writeInt(until - from)
    var entry = from
    while (entry < until) {
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

  /** Replaces the entries of a table by those of a file.
    *
    * @param name  of the file, for errors
    * @param place that the file must contain
    * @param table with the disorder of the query; a window that was written with another one is widened or
    *              cut
    * @param entry receives the number of each entry in the table, before it is replaced
    */
  def decode(bytes: Array[Byte], name: String, place: String, table: MarkTable)(entry: Int => Unit): Unit =
    Layout.decode(bytes, name, place) { (format, in) =>
      val tables = if (format < 3) 1 else in.getInt()
      (0 until tables).foreach(_ => read(in, format, table)(entry))
    }

  /** The number of entries in the bytes of [[encodeTable]]. */
  def entriesIn(table: Array[Byte]): Int = {
    val in = ByteBuffer.wrap(table).position(4)
    (0 until in.getInt()).foreach(_ => CheckedBytes.readText(in))
    in.getInt()
  }

  /** The same with the bytes of [[encodeTable]], which nothing has damaged. */
  def decodeTable(bytes: Array[Byte], table: MarkTable)(entry: Int => Unit): Unit =
    read(ByteBuffer.wrap(bytes), format = 3, table)(entry)

  private def read(in: ByteBuffer, format: Int, table: MarkTable)(entry: Int => Unit): Unit = {
    val written = in.getInt()
    val homes =
      if (format == 1) Array.emptyIntArray
      else Array.fill(CheckedBytes.readCount(in))(table.homes.of(CheckedBytes.readText(in)))
    val entries = in.getInt()
    if (written < 0 || entries < 0 || in.remaining < entries.toLong * lengthIn(format, written))
      throw new BufferUnderflowException
    (0 until entries).foreach(_ => read(in, format, written, homes, table)(entry))
  }

  private def lengthIn(format: Int, disorder: Int): Int =
    if (format == 1) entryLength(disorder) - 4 else entryLength(disorder)

  private def read(in: ByteBuffer, format: Int, written: Int, homes: Array[Int], table: MarkTable)(
      tell: Int => Unit
  ): Unit = {
    val words = MarkTable.wordsFor(table.disorder)
    val entry = table.findOrAppend(in.getLong(), in.getInt())
    tell(entry)
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
  }
}
