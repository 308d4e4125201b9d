package io.tailrace.progress

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, IOException}

import io.tailrace.common.{Checksum, Errors}

/** A small file of a checkpoint: magic(4) format(4) content CRC-32C of all before(4), big-endian.
  *
  * @param format the only one that is written and read
  * @param what   it is, for errors: "a table of hosts"
  */
private[tailrace] final class CheckedFile(magic: Int, format: Int, what: String) {
  import CheckedFile._

  def encode(content: DataOutputStream => Unit): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(magic)
    out.writeInt(format)
    content(out)
    out.writeInt(Checksum.of(bytes.toByteArray, bytes.size))
    bytes.toByteArray
  }

  /** @param name of the file, for errors
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED
    */
  def decode[T](bytes: Array[Byte], name: String)(content: DataInputStream => T): T =
    try {
      val in = new DataInputStream(new ByteArrayInputStream(bytes))
      if (in.readInt() != magic) throw Errors.stateFileCorrupt(name, s"it isn't $what")
      val found = in.readInt()
      if (found != format) throw Errors.stateFormatUnsupported(name, found, format, format)
      val body = bytes.length - ChecksumLength
      val written = new DataInputStream(new ByteArrayInputStream(bytes, body, ChecksumLength)).readInt()
      if (Checksum.of(bytes, body) != written) {
        throw Errors.stateFileCorrupt(name, "its checksum doesn't fit its content")
      }
      val read = content(in)
      if (in.available != ChecksumLength) {
        throw Errors.stateFileCorrupt(name, s"${in.available} bytes are left over")
      }
      read
    } catch { case e: IOException => throw Errors.stateFileCorrupt(name, "it ends too soon", e) }
}

private object CheckedFile {
  private val ChecksumLength = 4
}
