package io.tailrace.watermark

import java.io.{DataInputStream, DataOutputStream}
import java.nio.charset.StandardCharsets.UTF_8

/** Entries of a [[HostTable]] as bytes, in files and on the way from tasks: big-endian, see `jvm/docs/formats.md`. */
private[watermark] object HostEntries {

  def write(out: DataOutputStream, table: HostTable, hosts: Iterator[Int], count: Int): Unit = {
    out.writeInt(count)
    hosts.foreach { host =>
      val name = table.name(host).getBytes(UTF_8)
      write(out, name, 0, name.length, table.time(host), table.future(host))
    }
  }

  /** One entry. */
  def write(
      out: DataOutputStream,
      name: Array[Byte],
      at: Int,
      length: Int,
      time: Long,
      future: Long
  ): Unit = {
    out.writeInt(length)
    out.write(name, at, length)
    out.writeLong(time)
    out.writeLong(future)
  }

  /** @throws java.io.IOException if the bytes end too soon, or lengths make no sense */
  def read(in: DataInputStream, into: HostTable): Unit =
    (0 until in.readInt()).foreach { _ =>
      val length = in.readInt()
      if (length < 0 || length > in.available) throw new java.io.EOFException(s"a name of $length bytes")
      val host = into.add(new String(in.readNBytes(length), UTF_8))
      into.raise(host, in.readLong())
      into.raiseFuture(host, in.readLong())
    }
}
