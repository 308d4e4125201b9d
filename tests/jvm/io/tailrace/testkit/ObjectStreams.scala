package io.tailrace.testkit

import java.io.{ByteArrayOutputStream, FileNotFoundException, IOException, OutputStream}

import org.apache.hadoop.fs.{Abortable, FSInputStream, PathIOException, StreamCapabilities}

/** The object appears with the end of the stream. */
private[testkit] final class ObjectOutput(key: String, exclusive: Boolean, header: Option[(String, String)])
    extends OutputStream
    with Abortable
    with StreamCapabilities {
  private val bytes = new ByteArrayOutputStream
  private var ended = false

  override def write(b: Int): Unit = bytes.write(b)
  override def write(some: Array[Byte], offset: Int, length: Int): Unit = bytes.write(some, offset, length)
  override def hasCapability(capability: String): Boolean =
    capability == StreamCapabilities.ABORTABLE_STREAM

  override def close(): Unit = if (!ended) {
    ended = true
    try {
      try put()
      // A client asks again.
      catch { case _: ObjectStore.AnswerLost => put() }
    } catch { case e: ObjectStore.PreconditionFailed => throw new PathIOException(key, e) }
  }

  private def put(): Unit = ObjectStore.put(key, bytes.toByteArray, exclusive, header)

  override def abort(): Abortable.AbortableResult = {
    val already = ended
    ended = true
    new Abortable.AbortableResult {
      override def alreadyClosed(): Boolean = already
      override def anyCleanupException(): IOException = null
    }
  }
}

private[testkit] final class NotAbortable(out: OutputStream) extends OutputStream {
  override def write(b: Int): Unit = out.write(b)
  override def write(some: Array[Byte], offset: Int, length: Int): Unit = out.write(some, offset, length)
  override def close(): Unit = out.close()
}

/** A GET with each seek; a stream reads on from there. */
private[testkit] final class ObjectInput(key: String, length: Long) extends FSInputStream {
  private val ReadAhead = 64 << 10
  private var position = 0L
  private var held = Array.emptyByteArray
  private var heldFrom = 0L

  override def seek(to: Long): Unit = position = to
  override def getPos: Long = position
  override def seekToNewSource(to: Long): Boolean = false

  private def fill(): Boolean = position < length && {
    if (position < heldFrom || position >= heldFrom + held.length) {
      // A stream from its begin gets the whole object by one request.
      val wanted = if (position == heldFrom + held.length) length - position else ReadAhead.toLong
      held = ObjectStore.get(key, position, wanted.toInt).getOrElse(throw new FileNotFoundException(key))
      heldFrom = position
    }
    true
  }

  override def read(): Int = if (!fill()) -1
  else {
    position += 1
    held((position - 1 - heldFrom).toInt) & 0xff
  }

  override def read(into: Array[Byte], offset: Int, most: Int): Int = if (most == 0) 0
  else if (!fill()) -1
  else {
    val n = Math.min(most.toLong, heldFrom + held.length - position).toInt
    System.arraycopy(held, (position - heldFrom).toInt, into, offset, n)
    position += n
    n
  }
}
