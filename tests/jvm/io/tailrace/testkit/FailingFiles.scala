package io.tailrace.testkit

import java.io.IOException
import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/** A checkpoint whose writes fail, or wait, while a test says so. Set it as `spark.sql.streaming.checkpointFileManagerClass`. */
final class FailingFiles(path: Path, conf: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, conf) {

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    FailingFiles.held.filter(h => path.getName.endsWith(h.suffix)).foreach(_.await())
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

  /** A write that waits until the test lets it go on. */
  final class Held(val suffix: String) {
    private val begun = new CountDownLatch(1)
    private val released = new CountDownLatch(1)

    private[FailingFiles] def await(): Unit = {
      begun.countDown()
      require(released.await(60, TimeUnit.SECONDS), "nobody let the write go on")
    }

    def awaitBegin(): Unit = require(begun.await(60, TimeUnit.SECONDS), s"no write of a $suffix")
    def release(): Unit = released.countDown()
  }

  @volatile private var held: Option[Held] = None

  /** Lets each write of a file whose name ends so wait, until `body` says `release`, or ends. */
  def whileHolding[T](suffix: String)(body: Held => T): T = {
    val hold = new Held(suffix)
    held = Some(hold)
    try body(hold)
    finally {
      held = None
      hold.release()
    }
  }

  def configure(conf: Configuration): Configuration = {
    conf.set("spark.sql.streaming.checkpointFileManagerClass", classOf[FailingFiles].getName)
    conf
  }
}
