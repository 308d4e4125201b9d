package io.tailrace.checkpoint

import java.io.{ByteArrayOutputStream, EOFException, OutputStream}

import org.apache.hadoop.fs.{FSDataInputStream, FSInputStream}

/** Keeps what is written to a file, unless it becomes more than `most` bytes. */
private[checkpoint] final class CopiedOutput(out: OutputStream, most: Long = RecentEntries.MostBytes)
    extends OutputStream {
  private var copy = Option(new ByteArrayOutputStream)

  /** None if it was too much. */
  def content: Option[Array[Byte]] = copy.map(_.toByteArray)

  override def write(byte: Int): Unit = {
    out.write(byte)
    room(1).foreach(_.write(byte))
  }

  override def write(source: Array[Byte], offset: Int, length: Int): Unit = {
    out.write(source, offset, length)
    room(length).foreach(_.write(source, offset, length))
  }

  private def room(length: Int): Option[ByteArrayOutputStream] = {
    copy = copy.filter(_.size.toLong + length <= most)
    copy
  }

  override def flush(): Unit = out.flush()
  override def close(): Unit = out.close()
}

/** Bytes in memory that are read as a file's. */
private[checkpoint] object BytesInput {
  def open(content: Array[Byte]): FSDataInputStream = new FSDataInputStream(new BytesInput(content))
}

private final class BytesInput(content: Array[Byte]) extends FSInputStream {
  private var at = 0

  override def seek(position: Long): Unit = {
    if (position < 0 || position > content.length)
      throw new EOFException(s"$position of ${content.length} bytes")
    at = position.toInt
  }

  override def getPos: Long = at.toLong
  override def seekToNewSource(target: Long): Boolean = false
  override def available: Int = content.length - at

  override def read(): Int =
    if (available == 0) -1
    else {
      at += 1
      content(at - 1) & 0xff
    }

  override def read(into: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (available == 0) -1
    else {
      val n = Math.min(length, available)
      System.arraycopy(content, at, into, offset, n)
      at += n
      n
    }
}
