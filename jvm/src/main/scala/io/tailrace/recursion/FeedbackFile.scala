package io.tailrace.recursion

import java.io._
import java.util.zip.{CRC32C, CheckedInputStream, CheckedOutputStream}

import io.tailrace.checkpoint.CheckedBytes
import io.tailrace.common.Errors

/** The rows that one task has fed back: format 2, big-endian, see `jvm/docs/formats.md`. Format 1 has no
  * place.
  *
  * {{{
  *   "TRFB"(4) format(4) place(4 + n) columns(4 + n)
  *   each row: length(4) bytes
  *   -1(4) rows(8) CRC-32C of all before(4)
  * }}}
  *
  * The bytes of a row are those of Spark's unsafe row with these columns.
  */
object FeedbackFile {
  private val Layout =
    new CheckedBytes(0x54524642, "a file of rows that were fed back", oldest = 1, newest = 2, placedSince = 2)
  private val End = -1

  // The largest row that Spark can hold.
  private val MostBytes = Int.MaxValue - 16

  /** Writes row after row. Without rows the file is not opened.
    *
    * @param place the file's [[FeedbackLog.place]]: a reader refuses the file of another batch
    */
  final class Writer(open: () => OutputStream, place: String, columns: String) {
    private val crc = new CRC32C
    private var out: DataOutputStream = _
    private var written = 0L

    def rows: Long = written

    private def begin(): Unit = {
      out = new DataOutputStream(new CheckedOutputStream(new BufferedOutputStream(open(), 1 << 16), crc))
      Layout.writeHead(out, place)
      CheckedBytes.writeText(out, columns)
    }

    /** @param write writes the row's bytes */
    def add(length: Int)(write: OutputStream => Unit): Unit = {
      if (out == null) begin()
      out.writeInt(length)
      write(out)
      written += 1
    }

    def end(): Unit = if (out != null) {
      out.writeInt(End)
      out.writeLong(written)
      out.flush()
      out.writeInt(crc.getValue.toInt)
      out.flush()
    }
  }

  /** The columns of a file's rows, which precede the rows.
    *
    * @param name  the file, for errors
    * @param place where it is read
    */
  def columns(in: InputStream, name: String, place: String): String = {
    val data = new DataInputStream(new BufferedInputStream(in))
    try {
      Layout.readHead(data, name, place): Unit
      CheckedBytes.readText(data)
    } catch { case e: EOFException => throw Errors.stateFileCorrupt(name, "it ends too soon", e) }
  }

  /** Reads row after row. Damage is found at the file's end at the latest, and fails the task.
    *
    * @param name    the file, for errors
    * @param place   where it is read
    * @param columns those that the rows must have
    */
  final class Reader(in: InputStream, name: String, place: String, columns: String) extends Closeable {
    private val crc = new CRC32C
    private val data = new DataInputStream(new CheckedInputStream(new BufferedInputStream(in, 1 << 16), crc))
    private var read = 0L
    private var buffer = new Array[Byte](1024)
    private var begun = false

    /** The bytes of the row that `next` has found. */
    def bytes: Array[Byte] = buffer

    private def begin(): Unit = {
      begun = true
      Layout.readHead(data, name, place): Unit
      val written = CheckedBytes.readText(data)
      if (written != columns) throw RecursionErrors.schemaChanged(name, written, columns)
    }

    /** @return the length of the next row, or -1 */
    def next(): Int =
      try {
        if (!begun) begin()
        val size = data.readInt()
        if (size == End) end()
        else {
          if (size < 0 || size > MostBytes) throw Errors.stateFileCorrupt(name, s"a length of $size")
          if (size > buffer.length) buffer = new Array[Byte](Math.max(size, buffer.length * 2))
          data.readFully(buffer, 0, size)
          read += 1
        }
        size
      } catch { case e: EOFException => throw Errors.stateFileCorrupt(name, "it ends too soon", e) }

    private def end(): Unit = {
      val rows = data.readLong()
      val checksum = crc.getValue.toInt
      Layout.checkEnd(checksum, data.readInt(), name)
      if (rows != read) throw Errors.stateFileCorrupt(name, s"it has $read rows of $rows")
      if (data.read() >= 0) throw Errors.stateFileCorrupt(name, "there are bytes behind its end")
    }

    override def close(): Unit = data.close()
  }
}
