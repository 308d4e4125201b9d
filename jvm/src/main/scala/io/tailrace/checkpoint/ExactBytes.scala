package io.tailrace.checkpoint

import java.io.ByteArrayOutputStream

/** Bytes that are written, which are not copied if `length` is exactly their number: they may take much of the
  * memory that there is.
  */
class ExactBytes(length: Int) extends ByteArrayOutputStream(length) {

  /** All of them. Nothing is written afterwards. */
  def content: Array[Byte] = if (count == buf.length) buf else toByteArray
}
