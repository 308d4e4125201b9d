package io.tailrace.checkpoint

import java.io._
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{BufferUnderflowException, ByteBuffer}
import java.util.zip.{CRC32C, CheckedOutputStream}

import scala.util.control.NonFatal

import io.tailrace.common.Errors

/** CRC-32C, the checksum at the end of a file. */
object Checksum {

  /** @param length only the first bytes count */
  def of(bytes: Array[Byte], length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, 0, length)
    crc.getValue.toInt
  }

  /** The checksum of some bytes followed by others, from the checksums of both.
    *
    * A checksum is a polynomial over bits, whose highest bit is that of x^0. Bytes that follow multiply it by
    * x^8 each, modulo that of CRC-32C.
    */
  def combine(first: Int, second: Int, lengthOfSecond: Long): Int = {
    // x^8, then the square of the one before.
    val squares = Iterator.iterate(1 << 23)(p => multiply(p, p))
    val shift = Iterator
      .iterate(lengthOfSecond)(_ >>> 1)
      .takeWhile(_ > 0)
      .zip(squares)
      .foldLeft(1 << 31) { case (product, (bits, power)) =>
        if ((bits & 1) == 1) multiply(product, power) else product
      }
    multiply(first, shift) ^ second
  }

  private val Polynomial = 0x82f63b78

  private def multiply(a: Int, b: Int): Int = {
    var (product, shifted) = (0, b)
    for (bit <- 31 to 0 by -1) {
      if ((a >>> bit & 1) == 1) product ^= shifted
      shifted = (shifted >>> 1) ^ (if ((shifted & 1) == 1) Polynomial else 0)
    }
    product
  }

  /** The checksum of a text's UTF-8 bytes, in eight hexadecimal digits. */
  def hex(text: String): String = {
    val bytes = text.getBytes(UTF_8)
    f"${of(bytes, bytes.length)}%08x"
  }
}

/** The formats that this release reads of one kind of file. It refuses others, and names the file.
  *
  * @param kind for errors: "a table of hosts"
  */
class FileFormats(kind: String, oldest: Int, newest: Int) {

  /** @param file name, for errors
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FORMAT_UNSUPPORTED
    */
  def checkFormat(found: Int, file: String): Unit =
    if (found < oldest || found > newest) throw Errors.stateFormatUnsupported(file, found, oldest, newest)

  protected def otherKind(file: String): Throwable = Errors.stateFileCorrupt(file, s"it isn't $kind")

  protected def checkPlace(found: String, place: String, file: String): Unit =
    if (found != place) throw Errors.stateFileCorrupt(file, s"it belongs to '$found', not to '$place'")

  /** @param fits whether the checksum is that of the content */
  protected def checkChecksum(fits: Boolean, file: String): Unit =
    if (!fits) throw Errors.stateFileCorrupt(file, "its checksum doesn't fit its content")
}

/** A kind of binary file, big-endian: magic(4) format(4) place(4 + n) body CRC-32C of all before(4). The
  * place is the file's path below the checkpoint. Without it a copy of another batch's file would be taken
  * for this one.
  *
  * @param newest      the format that is written
  * @param placedSince the first format that has a place
  */
final class CheckedBytes(magic: Int, kind: String, oldest: Int, newest: Int, placedSince: Int)
    extends FileFormats(kind, oldest, newest) {
  import CheckedBytes._

  /** @param length of the body. If it is exact, the bytes are not copied */
  def encode(place: String, length: Int = 1024)(body: DataOutputStream => Unit): Array[Byte] = {
    val bytes = new Buffer(Math.addExact(length, 16 + place.getBytes(UTF_8).length))
    val out = new DataOutputStream(bytes)
    writeHead(out, place)
    body(out)
    out.writeInt(bytes.checksum)
    bytes.content
  }

  /** Writes the same bytes as they are made. */
  def write(to: OutputStream, place: String)(body: DataOutputStream => Unit): Unit = {
    val crc = new CRC32C
    val out = new DataOutputStream(new CheckedOutputStream(new BufferedOutputStream(to, 1 << 16), crc))
    writeHead(out, place)
    body(out)
    out.writeInt(crc.getValue.toInt)
    out.flush()
  }

  /** @param file  name, for errors
    * @param place that the file must contain
    * @param body  is given the format and the bytes between place and checksum
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED
    */
  def decode[T](bytes: Array[Byte], file: String, place: String)(body: (Int, ByteBuffer) => T): T =
    try {
      val in = ByteBuffer.wrap(bytes)
      val format = checkedFormat(in.getInt(), in.getInt(), file)
      val end = bytes.length - ChecksumLength
      checkChecksum(Checksum.of(bytes, end) == in.getInt(end), file)
      in.limit(end)
      if (format >= placedSince) checkPlace(readText(in), place, file)
      val read = body(format, in)
      if (in.hasRemaining) throw Errors.stateFileCorrupt(file, s"${in.remaining} bytes are left over")
      read
    } catch { case e: BufferUnderflowException => throw Errors.stateFileCorrupt(file, "it ends too soon", e) }

  /** Begins a file that may not fit in memory. The caller writes body and checksum. */
  def writeHead(out: DataOutputStream, place: String): Unit = {
    out.writeInt(magic)
    out.writeInt(newest)
    writeText(out, place)
  }

  /** Reads the beginning of such a file. The caller calls [[checkEnd]]. @return the format */
  def readHead(in: DataInputStream, file: String, place: String): Int = {
    val format = checkedFormat(in.readInt(), in.readInt(), file)
    if (format >= placedSince) checkPlace(readText(in), place, file)
    format
  }

  /** @param written the checksum in the file */
  def checkEnd(checksum: Int, written: Int, file: String): Unit = checkChecksum(checksum == written, file)

  private def checkedFormat(foundMagic: Int, found: Int, file: String): Int = {
    if (foundMagic != magic) throw otherKind(file)
    checkFormat(found, file)
    found
  }
}

object CheckedBytes {
  private val ChecksumLength = 4

  /** A text is its length in bytes(4) and its UTF-8 bytes. */
  def writeText(out: DataOutputStream, text: String): Unit = {
    val bytes = text.getBytes(UTF_8)
    out.writeInt(bytes.length)
    out.write(bytes)
  }

  def readText(in: ByteBuffer): String = {
    val bytes = new Array[Byte](readCount(in))
    in.get(bytes)
    new String(bytes, UTF_8)
  }

  /** Reads the number of bytes, or entries, that follow. A damaged number must not allocate all memory. */
  def readCount(in: ByteBuffer): Int = {
    val count = in.getInt()
    if (count < 0 || count > in.remaining) throw new BufferUnderflowException
    count
  }

  def readText(in: DataInputStream): String = {
    val length = in.readInt()
    // `readNBytes` allocates as it reads: a damaged length must not allocate all memory.
    val bytes = if (length < 0) Array.emptyByteArray else in.readNBytes(length)
    if (bytes.length != length) throw new EOFException(s"a text of $length bytes")
    new String(bytes, UTF_8)
  }

  private final class Buffer(length: Int) extends ExactBytes(length) {
    def checksum: Int = Checksum.of(buf, count)
  }
}

/** A kind of text file of three lines: magic, format and place; a body of one line; the CRC-32C of both.
  *
  * @param newest      the format that is written
  * @param placedSince the first format that has a place
  */
final class CheckedText(magic: String, kind: String, oldest: Int, newest: Int, placedSince: Int = 0)
    extends FileFormats(kind, oldest, newest) {

  /** @param place  empty if files of this kind have none
    * @param format that it is written in: an older one where the content has nothing of a newer one
    */
  def encode(body: String, place: String = "", format: Int = newest): Array[Byte] = {
    val text = s"$magic $format${if (place.isEmpty) "" else s" $place"}\n$body\n"
    s"$text${Checksum.hex(text)}\n".getBytes(UTF_8)
  }

  /** Reads the first three lines of a file. Fewer if the file ends. */
  def read(in: InputStream): Array[Byte] = {
    val text = new ByteArrayOutputStream
    var lines = 0
    var byte = in.read()
    while (byte >= 0) {
      text.write(byte)
      if (byte == '\n') lines += 1
      byte = if (lines < 3) in.read() else -1
    }
    text.toByteArray
  }

  /** @param file  name, for errors
    * @param place that the file must contain
    * @param body  is given the second line
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED
    */
  def decode[T](bytes: Array[Byte], file: String, place: String = "")(body: String => T): T = {
    val lines = new String(bytes, UTF_8).split('\n')
    val head = lines.headOption.getOrElse("").split(' ')
    val format = head.lift(1).filter(_ => head(0) == magic).flatMap(_.toIntOption)
    checkFormat(format.getOrElse(throw otherKind(file)), file)
    checkChecksum(lines.length == 3 && lines(2) == Checksum.hex(s"${lines(0)}\n${lines(1)}\n"), file)
    if (format.exists(_ >= placedSince)) checkPlace(head.drop(2).mkString(" "), place, file)
    try body(lines(1))
    catch { case NonFatal(e) => throw Errors.stateFileCorrupt(file, "its content can't be read", e) }
  }
}

/** Bytes that are written, which are not copied if `length` is exactly their number: they may take much of the
  * memory that there is.
  */
class ExactBytes(length: Int) extends ByteArrayOutputStream(length) {

  /** All of them. Nothing is written afterwards. */
  def content: Array[Byte] = if (count == buf.length) buf else toByteArray
}
