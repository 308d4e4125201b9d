package io.tailrace.testkit

import java.io.IOException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/** A checkpoint whose writes fail while `failing` says so. Set it as `spark.sql.streaming.checkpointFileManagerClass`. */
final class FailingFiles(path: Path, conf: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, conf) {

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    if (path.getName.endsWith(FailingFiles.failing)) throw new IOException(s"no room for $path")
    super.createAtomic(path, overwriteIfPossible)
  }
}

object FailingFiles {
  val Nothing = "/"
  @volatile private var failing = Nothing

  /** Lets each write of a file fail whose name ends so, while `body` runs. */
  def whileFailing[T](suffix: String)(body: => T): T = {
    failing = suffix
    try body
    finally failing = Nothing
  }

  def configure(conf: Configuration): Configuration = {
    conf.set("spark.sql.streaming.checkpointFileManagerClass", classOf[FailingFiles].getName)
    conf
  }
}
