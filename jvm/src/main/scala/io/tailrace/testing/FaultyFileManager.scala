package io.tailrace.testing

import java.io.IOException
import java.nio.file.{Files, Paths, StandardCopyOption}
import java.util
import java.util.concurrent.CountDownLatch

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.tailrace.{CancellableFSDataOutputStream, CheckpointFileManager}

import io.tailrace.checkpoint.TailraceFileManager

/** A value for `spark.sql.streaming.checkpointFileManagerClass` that fails at the steps of [[CheckpointFaults]], for
  * tests of pipelines.
  *
  * {{{
  *   create offsets/3     before the file begins
  *   finish offsets/3     before it has its name: nobody sees it
  *   finished offsets/3   when it exists, and its writer doesn't know yet
  *   delete offsets/2     before it is deleted
  * }}}
  */
final class FaultyFileManager(root: Path, conf: Configuration) extends CheckpointFileManager {
  import CheckpointFaults.reach

  private val files = new TailraceFileManager(root, conf)

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    reach("create", path)
    val file = files.createAtomic(path, overwriteIfPossible)
    new CancellableFSDataOutputStream(file) {
      override def close(): Unit = {
        reach("finish", path)
        file.close()
        reach("finished", path)
      }
      override def cancel(): Unit = file.cancel()
    }
  }

  override def delete(path: Path): Unit = {
    reach("delete", path)
    files.delete(path)
  }

  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.list(path, filter)
  override def mkdirs(path: Path): Unit = files.mkdirs(path)
  override def exists(path: Path): Boolean = files.exists(path)
  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
}

/** The step of a checkpoint's files at which a process ends, for tests of pipelines. */
object CheckpointFaults {
  private val reached = new ArrayBuffer[String]
  private var last = Int.MaxValue
  private var crash: () => Unit = () => fail()

  /** Counts from here on. At a step it fails, and at all later ones, as if the process had died.
    *
    * @param at the first step that fails; the first of all is 1
    */
  def begin(at: Int): Unit = count(at, () => fail())

  /** Counts from here on. At a step all threads block, and the process is killed from outside.
    *
    * @param told the file with the steps so far, one per line; it appears with that step
    */
  def beginToStand(at: Int, told: String): Unit = count(at, () => stand(told))

  /** Stops failing. @return the steps since the beginning; the last one is the step that failed */
  def end(): util.List[String] = synchronized {
    val steps = new util.ArrayList[String]
    reached.take(last).foreach(steps.add)
    last = Int.MaxValue
    steps
  }

  private def count(at: Int, by: () => Unit): Unit = synchronized {
    reached.clear()
    last = at
    crash = by
  }

  private[testing] def reach(what: String, path: Path): Unit = synchronized {
    val names = Iterator.iterate(path)(_.getParent).takeWhile(_ != null).map(_.getName).take(4).toSeq
    // Up to the checkpoint's own directories.
    val shown = names.reverse.dropWhile(!Directories(_))
    reached += s"$what ${(if (shown.isEmpty) names.take(1) else shown).mkString("/")}"
    if (reached.size >= last) crash()
  }

  private def fail(): Unit = throw new IOException(s"simulated failure: ${reached.last}")

  /** Code that reaches a step meanwhile waits for the lock of this object. */
  private def stand(told: String): Unit = {
    val hidden = Paths.get(s"$told.tmp")
    Files.writeString(hidden, reached.mkString("\n"))
    Files.move(hidden, Paths.get(told), StandardCopyOption.ATOMIC_MOVE)
    new CountDownLatch(1).await()
  }

  private val Directories = Set("offsets", "commits", "state", "sources", "metadata")
}
