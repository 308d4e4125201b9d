package io.tailrace.state

import java.nio.channels.FileChannel
import java.nio.file.{Files, Paths, StandardCopyOption, StandardOpenOption}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.internal.SQLConf

/** Files of a checkpoint on a local disk. Spark's own manager, where Hadoop's native library is missing, as it mostly is,
  * starts ten processes a file for it (`readlink`, `chmod`), and writes a checksum file beside each; Tailrace's files
  * carry their checksums (`adr/004`).
  *
  * A file appears by one rename, and is there for good when the stream is closed: its directory is synced too.
  */
final class LocalFileManager(conf: Configuration) extends CheckpointFileManager {
  private val files = FileSystem.getLocal(conf).getRawFileSystem

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    val temporary = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}.tmp")
    new LocalFileManager.Replacing(this, temporary, path, overwriteIfPossible)
  }

  private def create(temporary: Path): FSDataOutputStream = files.create(temporary, false)

  private def rename(from: Path, to: Path, overwrite: Boolean): Unit = {
    if (!overwrite && files.exists(to)) throw new FileAlreadyExistsException(s"$to exists")
    // A checksum file that another manager has left would be taken for this file's.
    files.delete(checksumOf(to), false)
    Files.move(local(from), local(to), StandardCopyOption.ATOMIC_MOVE)
    val directory = FileChannel.open(local(to.getParent), StandardOpenOption.READ)
    try directory.force(true)
    finally directory.close()
  }

  private def checksumOf(path: Path): Path = new Path(path.getParent, s".${path.getName}.crc")

  private def local(path: Path): java.nio.file.Path = Paths.get(path.toUri.getPath)

  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.listStatus(path, filter)
  override def mkdirs(path: Path): Unit = Files.createDirectories(local(path))
  override def exists(path: Path): Boolean = files.exists(path)
  override def isLocal: Boolean = true

  override def delete(path: Path): Unit = {
    files.delete(path, true)
    files.delete(checksumOf(path), false)
  }

  override def createCheckpointDirectory(): Path =
    throw new UnsupportedOperationException("the directory of a checkpoint is Spark's to make")
}

object LocalFileManager {

  /** How the files of a checkpoint are written: as Spark does it, unless it is on a local disk and nobody has said how. */
  def forPath(path: Path, conf: Configuration): CheckpointFileManager = {
    val said = Seq(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key, "fs.file.impl")
    val scheme = Option(path.toUri.getScheme).getOrElse(FileSystem.getDefaultUri(conf).getScheme)
    if (scheme == "file" && said.forall(conf.get(_) == null)) new LocalFileManager(conf)
    else CheckpointFileManager.create(path, conf)
  }

  /** Writes into a temporary file that takes the place of another when it is closed. */
  private final class Replacing(
      manager: LocalFileManager,
      temporary: Path,
      path: Path,
      overwrite: Boolean
  ) extends CancellableFSDataOutputStream(manager.create(temporary)) {
    private var ended = false

    override def close(): Unit = synchronized {
      if (!ended) {
        super.close()
        manager.rename(temporary, path, overwrite)
        // Only now: whoever cancels after a failure has the temporary file deleted.
        ended = true
      }
    }

    override def cancel(): Unit = synchronized {
      if (!ended) {
        ended = true
        try super.close()
        finally manager.delete(temporary)
      }
    }
  }
}
