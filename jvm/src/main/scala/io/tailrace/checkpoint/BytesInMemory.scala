package io.tailrace.checkpoint

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, EOFException, OutputStream}

import org.apache.hadoop.fs.{FSDataInputStream, PositionedReadable, Seekable}

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

private final class BytesInput(content: Array[Byte])
    extends ByteArrayInputStream(content)
    with Seekable
    with PositionedReadable {

  override def seek(position: Long): Unit = {
    if (position < 0 || position > count) throw new EOFException(s"$position of $count bytes")
    pos = position.toInt
  }

  override def getPos: Long = pos.toLong
  override def seekToNewSource(target: Long): Boolean = false

  override def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (position >= count) -1
    else {
      val n = Math.min(length.toLong, count - position).toInt
      System.arraycopy(content, position.toInt, into, offset, n)
      n
    }

  override def readFully(position: Long, into: Array[Byte], offset: Int, length: Int): Unit =
    if (read(position, into, offset, length) < length)
      throw new EOFException(s"$length bytes at $position of $count")

  override def readFully(position: Long, into: Array[Byte]): Unit = readFully(position, into, 0, into.length)
}
