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

  def truncate(file: File, length: Long): Unit = {
    val channel = Files.newByteChannel(file.toPath, StandardOpenOption.WRITE)
    try channel.truncate(length)
    finally channel.close()
  }
}
