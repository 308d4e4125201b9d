package io.tailrace.testkit

import java.io.File
import java.nio.file.{Files, StandardOpenOption}

/** What can happen to a file on a disk. */
object Damage {

  def flipBit(file: File, at: Int): Unit = {
    val bytes = Files.readAllBytes(file.toPath)
    bytes(at) = (bytes(at) ^ 0x10).toByte
    Files.write(file.toPath, bytes, StandardOpenOption.TRUNCATE_EXISTING)
  }

  def flipMiddle(file: File): Unit = flipBit(file, (file.length / 2).toInt)

  /** Each of two files has the other's content. */
  def swap(a: File, b: File): Unit = {
    val (inA, inB) = (Files.readAllBytes(a.toPath), Files.readAllBytes(b.toPath))
    Files.write(a.toPath, inB)
    Files.write(b.toPath, inA)
    ()
  }

  /** With the file system's own checksum of it: what is left of that would be found before the file is missed. */
  def delete(file: File): Unit = {
    Files.delete(file.toPath)
    Files.deleteIfExists(new File(file.getParentFile, s".${file.getName}.crc").toPath)
    ()
  }

  def truncate(file: File, length: Long): Unit = {
    val channel = Files.newByteChannel(file.toPath, StandardOpenOption.WRITE)
    try channel.truncate(length)
    finally channel.close()
  }
}
