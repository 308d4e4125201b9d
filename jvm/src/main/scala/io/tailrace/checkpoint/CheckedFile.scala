package io.tailrace.checkpoint

import java.io._
import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.common.Errors

/** A small file of a checkpoint: magic(4) format(4) place(4 + n) content CRC-32C of all before(4), big-endian.
  *
  * @param format   that is written
  * @param what     it is, for errors: "a table of hosts"
  * @param oldest   format that is read
  * @param hasPlace whether files of a format say where they stand: one of another batch would be believed otherwise
  */
private[tailrace] final class CheckedFile(
    magic: Int,
    format: Int,
    what: String,
    oldest: Int,
    hasPlace: Int => Boolean
) {
  import CheckedFile._

  /** Of one format, without a place. */
  def this(magic: Int, format: Int, what: String) = this(magic, format, what, format, _ => false)

  /** @param place of the file, which stays when a checkpoint is moved */
  def encode(content: DataOutputStream => Unit, place: String = ""): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(magic)
    out.writeInt(format)
    if (hasPlace(format)) {
      val text = place.getBytes(UTF_8)
      out.writeInt(text.length)
      out.write(text)
    }
    content(out)
    out.writeInt(Checksum.of(bytes.toByteArray, bytes.size))
    bytes.toByteArray
  }

  /** @param name  of the file, for errors
    * @param place that it must be of
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED
    */
  def decode[T](bytes: Array[Byte], name: String, place: String = "")(content: DataInputStream => T): T =
    decodeFormat(bytes, name, place)((_, in) => content(in))

  /** Of files in several formats: the content gets the file's. */
  def decodeFormat[T](bytes: Array[Byte], name: String, place: String)(
      content: (Int, DataInputStream) => T
  ): T =
    try {
      val in = new DataInputStream(new ByteArrayInputStream(bytes))
      if (in.readInt() != magic) throw Errors.stateFileCorrupt(name, s"it isn't $what")
      val found = in.readInt()
      if (found < oldest || found > format) throw Errors.stateFormatUnsupported(name, found, oldest, format)
      val body = bytes.length - ChecksumLength
      val written = new DataInputStream(new ByteArrayInputStream(bytes, body, ChecksumLength)).readInt()
      if (Checksum.of(bytes, body) != written) {
        throw Errors.stateFileCorrupt(name, "its checksum doesn't fit its content")
      }
      if (hasPlace(found)) checkPlace(in, name, place)
      val read = content(found, in)
      if (in.available != ChecksumLength) {
        throw Errors.stateFileCorrupt(name, s"${in.available} bytes are left over")
      }
      read
    } catch { case e: IOException => throw Errors.stateFileCorrupt(name, "it ends too soon", e) }

  private def checkPlace(in: DataInputStream, name: String, place: String): Unit = {
    val length = in.readInt()
    if (length < 0 || length > in.available) throw new EOFException(s"a place of $length bytes")
    val found = new String(in.readNBytes(length), UTF_8)
    if (found != place) throw Errors.stateFileCorrupt(name, s"it belongs to '$found', not to '$place'")
  }
}

private object CheckedFile {
  private val ChecksumLength = 4
}
