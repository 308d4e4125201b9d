package io.tailrace.state

import java.io.{File, FileInputStream, FileOutputStream, IOException}
import java.nio.file.{Files, NoSuchFileException}

import io.tailrace.common.Errors

/** A run of a checkpoint on a local disk, of which few pages are read: no copy is made, and those pages alone are
  * checked. RocksDB reads files from their beginning, so a run behind a manifest is copied, by the kernel.
  *
  * {{{
  *   6-b.run                ── hard link, or a symbolic one ──> local file
  *   7_<id>.manifest#0      ── bytes of the run            ──> local file
  * }}}
  */
private[state] final class RunLink(run: Run, original: File, neededBy: String) {
  def path: String = original.getPath

  /** @param local becomes the run, whatever is there */
  def make(local: File): Unit = {
    if (!original.exists) throw Errors.stateFileMissing(path, neededBy)
    val isInline = StateFileNames.isInline(run.name)
    val end = run.offset + run.length
    if (original.length < end || (!isInline && original.length > end))
      throw Errors.stateFileCorrupt(
        path,
        s"its run ${run.name} doesn't end at byte $end of ${original.length}"
      )
    try {
      Files.createDirectories(local.getParentFile.toPath)
      Files.deleteIfExists(local.toPath)
      if (isInline) copy(local) else link(local)
    } catch { case e: IOException => throw Errors.stateFileUnavailable(path, "read", e) }
  }

  private def copy(local: File): Unit = {
    val in = new FileInputStream(original)
    try {
      val out = new FileOutputStream(local)
      try {
        var copied = 0L
        while (copied < run.length) {
          val bytes = in.getChannel.transferTo(run.offset + copied, run.length - copied, out.getChannel)
          if (bytes <= 0)
            throw Errors.stateFileCorrupt(path, s"it has become shorter than ${run.offset + run.length}")
          copied += bytes
        }
      } finally out.close()
    } finally in.close()
  }

  /** A hard link stays when the query deletes the original. */
  private def link(local: File): Unit =
    try Files.createLink(local.toPath, original.toPath): Unit
    catch {
      case e: NoSuchFileException => throw Errors.stateFileMissing(path, neededBy, e)
      case _: IOException | _: UnsupportedOperationException =>
        Files.createSymbolicLink(local.toPath, original.toPath.toAbsolutePath): Unit
    }
}
