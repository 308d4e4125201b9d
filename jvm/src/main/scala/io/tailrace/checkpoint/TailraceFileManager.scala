package io.tailrace.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.internal.SQLConf

/** For `spark.sql.streaming.checkpointFileManagerClass`: Spark's own logs, too (offsets, commits, sources), are written
  * by [[LocalFileManager]] where the checkpoint is on a local disk, and as Spark does it everywhere else. Spark makes it
  * by this constructor.
  */
final class TailraceFileManager(path: Path, conf: Configuration) extends CheckpointFileManager {
  private val files = {
    val unset = new Configuration(conf)
    unset.unset(TailraceFileManager.Key)
    LocalFileManager.forPath(path, unset)
  }

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    files.createAtomic(path, overwriteIfPossible)
  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.list(path, filter)
  override def mkdirs(path: Path): Unit = files.mkdirs(path)
  override def exists(path: Path): Boolean = files.exists(path)
  override def delete(path: Path): Unit = files.delete(path)
  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
  override def close(): Unit = files.close()
}

object TailraceFileManager {
  val Key: String = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key
}
