package io.tailrace.testkit

import java.io.File
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

/** A query's checkpoint as files on a disk. */
object Checkpoint {

  /** Without what the file system keeps beside its files. */
  def copy(from: File, to: File): Unit = {
    val all = Files.walk(from.toPath)
    try
      all.iterator.asScala.filterNot(_.getFileName.toString.endsWith(".crc")).foreach { path =>
        val target: Path = to.toPath.resolve(from.toPath.relativize(path))
        if (Files.isDirectory(path)) Files.createDirectories(target) else Files.copy(path, target)
      }
    finally all.close()
  }

  /** Files of a directory, newest version or batch first, without those of the file system itself. */
  def newestFirst(directory: File, suffix: String = ""): Seq[File] =
    directory.listFiles.toSeq
      .filter(f => f.isFile && f.getName.head.isDigit && f.getName.endsWith(suffix))
      .sortBy(f => -f.getName.takeWhile(_.isDigit).toInt)
}
