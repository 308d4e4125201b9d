package io.tailrace.replay

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

/** Names a producer by 64 bits that any program can compute: the first eight bytes, big-endian, of the SHA-256 of its
  * parts, each as its length in bytes (4, big-endian) and its UTF-8 bytes: query, stream, brokers, path, epoch. With the
  * lengths ("ab", "c") and ("a", "bc") are two producers.
  */
object ProducerIds {

  /** @param brokers a list separated by commas, in any order
    * @param epoch   "" unless the source was made anew under the same name
    */
  def hash(query: String, stream: String, brokers: String, path: String, epoch: String): Long = {
    val digest = MessageDigest.getInstance("SHA-256")
    Seq(query, stream, ordered(brokers), path, epoch).foreach { part =>
      val bytes = part.getBytes(UTF_8)
      digest.update(ByteBuffer.allocate(4).putInt(bytes.length).array)
      digest.update(bytes)
    }
    ByteBuffer.wrap(digest.digest()).getLong
  }

  /** Without spaces and doubles, sorted: the list may be written in another order tomorrow. */
  private def ordered(brokers: String): String =
    brokers.split(',').iterator.map(_.trim).filter(_.nonEmpty).toSeq.distinct.sorted.mkString(",")
}
