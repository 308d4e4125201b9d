package io.tailrace.checkpoint

import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32C

/** CRC-32C, as the files of a checkpoint end with it. */
object Checksum {

  /** Of the first bytes. */
  def of(bytes: Array[Byte], length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, 0, length)
    crc.getValue.toInt
  }

  /** Of a text's UTF-8 bytes, in eight hexadecimal digits. */
  def hex(text: String): String = {
    val bytes = text.getBytes(UTF_8)
    f"${of(bytes, bytes.length)}%08x"
  }
}
