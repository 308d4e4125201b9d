package io.tailrace.windows

import java.io.IOException
import java.net.URI
import java.nio.file.Files

import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{FSDataOutputStream, FileStatus, Path, RawLocalFileSystem}
import org.apache.hadoop.util.Progressable

/** Local files for a process that dies at a step: `dying:///path`. From then on each call fails. */
final class DyingFileSystem extends RawLocalFileSystem {
  import DyingFileSystem.step

  override def getScheme: String = "dying"
  override def getUri: URI = URI.create("dying:///")

  override def rename(from: Path, to: Path): Boolean = {
    step(s"rename to $to")
    DyingFileSystem.onRename(to)
    // As HDFS: a local file system would make the directory.
    super.exists(to.getParent) && super.rename(from, to)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    step(s"delete $path")
    super.delete(path, recursive)
  }

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = create(path, overwrite, bufferSize, replication, blockSize, progress)

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    mkdirs(path.getParent)
    step(s"create $path")
    // Nothing is synced: what has been written is there when a process dies.
    new FSDataOutputStream(Files.newOutputStream(pathToFile(path).toPath), null)
  }

  override def mkdirs(path: Path): Boolean = {
    if (!super.exists(path)) step(s"mkdirs $path")
    super.mkdirs(path)
  }
  override def mkdirs(path: Path, permission: FsPermission): Boolean = mkdirs(path)

  override def getFileStatus(path: Path): FileStatus = {
    if (DyingFileSystem.isDead) throw new IOException("dead")
    super.getFileStatus(path)
  }
}

object DyingFileSystem {
  private var left = Int.MaxValue
  private var last: String => Boolean = _ => false
  private var taken = Seq.empty[String]

  /** What a rename does before it renames. Several run side by side. */
  @volatile var onRename: Path => Unit = _ => ()

  def isDead: Boolean = left < 0

  /** The steps since, in their order; where it has died, the last one wasn't done. */
  def steps: Seq[String] = taken

  /** Lives for so many steps. */
  def live(steps: Int): Unit = {
    left = steps
    last = _ => false
    taken = Nil
  }

  /** Lives until a step. */
  def dieBefore(step: String => Boolean): Unit = {
    live(Int.MaxValue)
    last = step
  }

  private def step(what: String): Unit = synchronized {
    if (left >= 0) {
      left = if (last(what)) -1 else left - 1
      taken :+= what
    }
    if (isDead) throw new IOException(s"died before: $what")
  }
}
