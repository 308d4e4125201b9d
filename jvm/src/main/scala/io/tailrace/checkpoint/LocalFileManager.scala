package io.tailrace.checkpoint

import java.io.{FileOutputStream, OutputStream}
import java.nio.channels.FileChannel
import java.nio.file.{Files, Paths, StandardCopyOption, StandardOpenOption}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.tailrace.{CancellableFSDataOutputStream, CheckpointFileManager, SparkCheckpoints}

/** Writes the files of a checkpoint on a local disk. Spark's own manager starts ten processes for each file
  * (`readlink`, `chmod`) where Hadoop's native library is missing, and writes a checksum file beside each.
  * Tailrace's files contain their checksums (`adr/004`).
  *
  * A file appears by one rename. When its stream is closed, file and directory are synced to the disk.
  */
final class LocalFileManager(root: Path, conf: Configuration) extends CheckpointFileManager {
  private val files = FileSystem.getLocal(conf).getRawFileSystem

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    val temporary = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}.tmp")
    new LocalFileManager.Replacing(this, temporary, path, overwriteIfPossible)
  }

  private def create(temporary: Path): OutputStream = {
    Files.createDirectories(local(temporary.getParent))
    // Hadoop's own stream would start `chmod`.
    new LocalFileManager.SyncedFile(local(temporary))
  }

  private def publish(from: Path, to: Path, overwrite: Boolean): Unit = {
    if (overwrite) {
      // Another manager would check this file against a checksum file that it has left here.
      files.delete(checksumOf(to), false)
      Files.move(local(from), local(to), StandardCopyOption.ATOMIC_MOVE)
    } else {
      // Only one of two writers gets the name. A rename would give it to both, one after the other.
      try Files.createLink(local(to), local(from))
      catch {
        case e: java.nio.file.FileAlreadyExistsException =>
          throw new FileAlreadyExistsException(s"$to exists").initCause(e)
      }
      Files.delete(local(from))
    }
    val directory = FileChannel.open(local(to.getParent), StandardOpenOption.READ)
    try directory.force(true)
    finally directory.close()
  }

  private def checksumOf(path: Path): Path = new Path(path.getParent, s".${path.getName}.crc")

  private def local(path: Path): java.nio.file.Path = Paths.get(path.toUri.getPath)

  override def open(path: Path): FSDataInputStream = files.open(path)

  /** Lists no checksum files, which another manager may have left. */
  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    files.listStatus(path, (p: Path) => !isChecksum(p) && filter.accept(p))

  private def isChecksum(path: Path): Boolean = path.getName.startsWith(".") && path.getName.endsWith(".crc")

  override def mkdirs(path: Path): Unit = Files.createDirectories(local(path))
  override def exists(path: Path): Boolean = files.exists(path)
  override def isLocal: Boolean = true

  override def delete(path: Path): Unit = {
    files.delete(path, true)
    files.delete(checksumOf(path), false)
  }

  override def createCheckpointDirectory(): Path = {
    mkdirs(root)
    files.makeQualified(root)
  }
}

object LocalFileManager {
  private final class SyncedFile(path: java.nio.file.Path)
      extends FileOutputStream(path.toFile)
      with Syncable {
    override def hflush(): Unit = flush()
    override def hsync(): Unit = getFD.sync()
  }

  /** Writes a temporary file and renames it when it is closed. */
  private final class Replacing(manager: LocalFileManager, temporary: Path, path: Path, overwrite: Boolean)
      extends CancellableFSDataOutputStream(manager.create(temporary)) {
    private var ended = false

    override def close(): Unit = synchronized {
      if (!ended) {
        hsync()
        super.close()
        manager.publish(temporary, path, overwrite)
        // Not earlier: if publishing fails, `cancel` must still delete the temporary file.
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

/** A value for `spark.sql.streaming.checkpointFileManagerClass`. With it [[LocalFileManager]] writes Spark's
  * own logs (offsets, commits, sources) too where the checkpoint is on a local disk. Spark calls this
  * constructor.
  */
final class TailraceFileManager(path: Path, conf: Configuration)
    extends CheckpointFileManager
    with BulkDeletes {
  private val files = {
    val unset = new Configuration(conf)
    unset.unset(TailraceFileManager.Key)
    TailraceFileManager.forPath(path, unset)
  }

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    files.createAtomic(path, overwriteIfPossible)
  override def open(path: Path): FSDataInputStream = files.open(path)

  /** A directory with nothing but temporary files is empty: a process that was killed in its first batch has
    * left them, and Spark would refuse the checkpoint at each start ("should be empty on batch 0").
    */
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val found = files.list(path, filter)
    if (found.forall(file => TailraceFileManager.temporaryOf(file.getPath.getName).isDefined)) Array.empty
    else found
  }
  override def mkdirs(path: Path): Unit = files.mkdirs(path)
  override def exists(path: Path): Boolean = files.exists(path)
  override def delete(path: Path): Unit = files.delete(path)
  override def deletePage: Int = BulkDeletes.page(files)
  override def deleteAll(paths: Seq[Path]): Unit = BulkDeletes.deleteAll(files, paths)
  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
  override def close(): Unit = files.close()
}

object TailraceFileManager {
  val Key: String = SparkCheckpoints.FileManagerKey

  // Spark's file managers write such files, and rename them. A writer that died leaves one behind.
  private val Temporary = """\.(\d+)[-_.].+\.tmp""".r

  /** The number that a file's name begins with, if it is the name of a temporary file; else none. */
  def temporaryOf(name: String): Option[Long] = Temporary.unapplySeq(name).flatMap(_.head.toLongOption)

  /** A checkpoint's manager: the user's if a setting names one; ours on a local disk, and in an object store
    * that can abort a stream; else Spark's.
    */
  def forPath(path: Path, conf: Configuration): CheckpointFileManager = {
    val scheme = Option(path.toUri.getScheme).getOrElse(FileSystem.getDefaultUri(conf).getScheme)
    // A local file system that somebody has set on purpose, such as an encrypting one, is respected.
    val isLocal = scheme == "file" && conf.get("fs.file.impl") == null
    if (conf.get(Key) != null) SparkCheckpoints.files(path, conf)
    else if (isLocal) new LocalFileManager(path, conf)
    else if (scheme != "file" && ObjectStoreFileManager.serves(path, conf))
      new ObjectStoreFileManager(path, conf)
    else SparkCheckpoints.files(path, conf)
  }
}
