package io.tailrace.ops.rewrite

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Arrays, UUID}

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.{Errors, LiteralPath, OnFailure}

/** The directory of a new checkpoint, which a command makes in a directory beside it, and then moves there.
  *
  * {{{
  *   <checkpoint>-import-<unique>/   where it is made
  *   <checkpoint>/metadata           no metadata: a query that is started now fails. Nobody can write it twice
  *   <checkpoint>/...                all other files are moved
  *   <checkpoint>/metadata           from here on the query can be started
  * }}}
  *
  * A command that was killed leaves some of that behind. The next one deletes it: it takes one that still continues
  * for dead, and that fails when its files are gone.
  */
private[tailrace] final class NewCheckpoint(checkpoint: String, conf: Configuration) extends Logging {
  import NewCheckpoint._

  private val target = LiteralPath.of(checkpoint)
  if (target.isRoot) throw Errors.pathInvalid(checkpoint, "it is the root, which is there already")
  private val metadata = new Path(target, "metadata")
  private val files = DurableFiles.in(target, conf)
  private val parent = target.getParent
  // Rows are read from there as a stream.
  private val prefix = s"${LiteralPath.plain(target.getName)}-import-"

  /** Where it is made. */
  val work: Path = LiteralPath.in(parent, s"$prefix${UUID.randomUUID.toString.take(8)}")

  /** True if there is nothing, or what a command has left that was killed. */
  def checkFree(): Unit = SparkCheckpoint.readable(checkpoint) {
    if (files.list(target).nonEmpty && !isUnfinished) throw RewriteErrors.destinationExists(checkpoint)
  }

  private def isUnfinished: Boolean = files.find(metadata).exists(Arrays.equals(_, Unfinished))

  /** Runs what makes it. If that fails, nothing is left.
    *
    * @param write gives the directory that is moved
    */
  def make(write: => Path): Unit = SparkCheckpoint.naming {
    checkFree()
    deleteFormer()
    val result = Try(move(write))
    try files.delete(work)
    catch {
      // The checkpoint is whole, or its own failure says more.
      case NonFatal(failure) => logWarning(s"$work can't be deleted: delete it", failure)
    }
    result.get
  }(RewriteErrors.failed(checkpoint, _))

  /** Deletes the directories of killed commands. */
  private def deleteFormer(): Unit = {
    val besides = DurableFiles.in(parent, conf)
    besides.list(parent).filter(_.isDirectory).map(_.getPath).filter(isWork).foreach(besides.delete)
    if (isUnfinished) clear()
  }

  private def isWork(path: Path): Boolean = {
    val name = path.getName
    name.startsWith(prefix) && name.drop(prefix.length).matches("[0-9a-f]{8}") &&
    files.names(path).forall(of => Contents(of) || of.startsWith("."))
  }

  /** The mark goes last, so that nothing is taken for whole meanwhile. */
  private def clear(): Unit = {
    files.list(target).map(_.getPath).filter(_.getName != metadata.getName).foreach(files.delete)
    files.delete(metadata)
  }

  private def move(made: Path): Unit = {
    val own = files.read(new Path(made, metadata.getName), "the import")
    try files.create(metadata)(_.write(Unfinished))
    catch { case _: FileAlreadyExistsException => throw RewriteErrors.destinationExists(checkpoint) }
    OnFailure(if (isUnfinished) clear()) {
      val system = target.getFileSystem(conf)
      files.list(made).map(_.getPath).filter(_.getName != metadata.getName).foreach { path =>
        val moved = new Path(target, path.getName)
        // Into a directory that is there, a file system would move it, too.
        if (!path.getName.startsWith(".") && (system.exists(moved) || !system.rename(path, moved)))
          throw new IOException(s"$path can't be moved")
      }
      if (!isUnfinished) throw RewriteErrors.destinationExists(checkpoint)
    }
    files.write(metadata)(_.write(own))
  }
}

private[tailrace] object NewCheckpoint {

  /** The contents of a command's directory beside the checkpoint. */
  private val Contents = Set("left", "right", "checkpoint")

  /** No query's. Spark refuses to start with it. */
  val UnfinishedText = "an import by Tailrace that isn't complete: delete this directory, and import again\n"

  private val Unfinished = UnfinishedText.getBytes(UTF_8)
}
