package io.tailrace.watermark

import java.io.DataOutputStream
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.checkpoint.CheckedBytes

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

  /** @throws java.nio.BufferUnderflowException if the bytes end too soon, or lengths make no sense */
  def read(in: ByteBuffer, into: HostTable): Unit =
    (0 until in.getInt()).foreach { _ =>
      val host = into.add(CheckedBytes.readText(in))
      into.raise(host, in.getLong())
      into.raiseFuture(host, in.getLong())
    }
}
