package io.tailrace.state

import java.io.{EOFException, File, IOException, RandomAccessFile}
import java.util.concurrent.Semaphore
import java.util.zip.CRC32C

import org.apache.hadoop.fs.{FSDataInputStream, Path}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.checkpoint.{Checksum, DurableFiles}
import io.tailrace.common.Errors

/** Copies runs from a checkpoint to local files, in parts side by side, because one stream of an object store
  * is slow and a partition may have 10 GB:
  *
  * {{{
  *   6-b.run, 80 MiB    0 to 32 | 32 to 64 | 64 to 80    a stream for each part, to its place in the local file
  *   7_<id>.manifest#0  0 to 2
  * }}}
  *
  * The checksum of a run is made of those of its parts.
  *
  * @param directory of the checkpoint's files
  * @param neededBy  for errors
  */
private[state] final class RunDownload(files: DurableFiles, directory: Path, neededBy: String) {
  import RunDownload._

  /** @param runs with their local files, which exist and are empty */
  def apply(runs: Seq[(Run, File)]): Unit = {
    val parts = runs.map { case (run, local) =>
      (0L to Math.max(0L, run.length - 1) by PartBytes).map { from =>
        new Part(run, local, from, Math.min(PartBytes, run.length - from))
      }
    }
    SparkState.sideBySide("tailrace-download", Threads, parts.flatten)(copy)
    parts.foreach(check)
  }

  private def pathOf(run: Run) = new Path(directory, run.file)

  private def copy(part: Part): Unit = {
    streams.acquire()
    try read(part)
    finally streams.release()
  }

  private def read(part: Part): Unit = files.stream(pathOf(part.run), neededBy) { in =>
    val out = new RandomAccessFile(part.local, "rw")
    try
      if (skipTo(in, part.run.offset + part.from)) {
        out.seek(part.from)
        val buffer = new Array[Byte](1 << 16)
        def next(): Int = in.read(buffer, 0, Math.min(buffer.length.toLong, part.length - part.copied).toInt)
        var n = next()
        while (n > 0) {
          // Not an error of the checkpoint's file, which a failure in here would be.
          try out.write(buffer, 0, n)
          catch { case e: IOException => throw Errors.stateFileUnavailable(part.local.getPath, "written", e) }
          part.crc.update(buffer, 0, n)
          part.copied += n
          n = next()
        }
        // Behind an inline run there may be others.
        part.goesOn = part.isLast && part.run.offset == 0 && in.read() >= 0
      }
    finally out.close()
  }

  private def check(parts: Seq[Part]): Unit = {
    val run = parts.head.run
    def corrupt(reason: String) = throw Errors.stateFileCorrupt(pathOf(run).toString, reason)
    val copied = parts.map(_.copied).sum
    if (copied != run.length) corrupt(s"its run ${run.name} has $copied bytes instead of ${run.length}")
    if (parts.last.goesOn) corrupt(s"it has more than ${run.length} bytes")
    val crc =
      parts.foldLeft(0)((before, part) => Checksum.combine(before, part.crc.getValue.toInt, part.length))
    if (Integer.toUnsignedLong(crc) != run.crc32c)
      corrupt(s"the checksum of its run ${run.name} doesn't fit the content")
  }
}

private[state] object RunDownload {

  /** A part takes half a second at 70 MB/s. */
  private val PartBytes = 32L << 20

  /** For the runs of one partition. */
  private val Threads = 32

  /** Of all partitions of an executor. More would wait for each other's connections, and fail. */
  private val streams = new Semaphore(2 * Threads)

  private final class Part(val run: Run, val local: File, val from: Long, val length: Long) {
    val crc = new CRC32C
    @volatile var copied = 0L
    @volatile var goesOn = false
    def isLast: Boolean = from + length == run.length
  }

  /** @return false if the file ends before `offset` */
  def skipTo(in: FSDataInputStream, offset: Long): Boolean =
    try {
      if (offset > 0) in.seek(offset)
      true
    } catch { case _: EOFException => false }
}
