package io.tailrace.join

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.checkpoint.{DurableFiles, RepartitionTurn}
import io.tailrace.state.StateLayout

/** The state of a number of partitions that a query doesn't have any more, and what a rescaling that has died
  * left behind. The query deletes them when it has completed a batch: then nobody needs them, and a rescaling
  * that still continues elsewhere notices the batch, and gives up.
  */
private[tailrace] object FormerLayouts extends Logging {

  /** Directories that are listed and emptied side by side. */
  private val Threads = 16

  /** @param directory of the operator
    * @param current   the layout that stays
    */
  def delete(directory: Path, conf: Configuration, checkpoint: JoinCheckpoint, current: StateLayout): Unit = {
    // The last one is the layout that a rescaling would have made.
    checkpoint.layouts.lastOption.map(_.partitions).filter(_ != current.partitions).foreach { number =>
      logWarning(
        s"TAILRACE_STATE_RESCALE_LOST: a rescaling of $directory to $number partitions has no effect. It was " +
          s"cut off, or the query ran meanwhile. The query goes on with ${current.partitions} partitions"
      )
    }
    deleteFiles(directory, conf, current)(())
    RepartitionTurn.deleteStaged(directory.getParent.getParent, conf)
    val isFirst = current.store == StateLayout.FirstStore
    val layouts = if (isFirst && current.cutOff.isEmpty) Nil else Seq(current)
    JoinCheckpoint.write(directory, conf, checkpoint.copy(layouts = layouts)): Unit
  }

  /** Deletes all files of the state but those of one layout.
    *
    * @param check runs when it is known which they are: files that come into being since then stay
    */
  def deleteFiles(directory: Path, conf: Configuration, current: StateLayout)(check: => Unit): Unit = {
    val files = DurableFiles.in(directory, conf)
    val all = former(files, directory, current)
    check
    SparkState.sideBySide("tailrace-former-state", Threads, all) { of =>
      files.deleteAll(of.files)
      of.directories.foreach(files.delete(_))
    }
  }

  /** Paths below the operator's directory that [[deleteFiles]] would delete. */
  def filesOf(directory: Path, conf: Configuration, current: StateLayout): Seq[String] = for {
    of <- former(DurableFiles.in(directory, conf), directory, current)
    path <- of.files ++ of.directories
  } yield if (path == of.partition) path.getName else s"${of.partition.getName}/${path.getName}"

  /** Files and directories of a partition. It may be one of its directories itself. */
  private final case class Former(partition: Path, files: Seq[Path], directories: Seq[Path])

  private def former(files: DurableFiles, directory: Path, current: StateLayout): Seq[Former] = {
    val found = new ConcurrentLinkedQueue[Former]
    SparkState.sideBySide("tailrace-former-state", Threads, partitions(files, directory)) {
      case (number, path) if number >= current.partitions => found.add(Former(path, Nil, Seq(path))): Unit
      case (_, path) =>
        val (directories, others) = filesIn(files, path, current).partition(_.isDirectory)
        found.add(Former(path, others.map(_.getPath), directories.map(_.getPath))): Unit
    }
    found.asScala.toSeq
  }

  private def partitions(files: DurableFiles, directory: Path): Seq[(Int, Path)] = for {
    status <- files.list(directory) if status.isDirectory
    number <- status.getPath.getName.toIntOption
  } yield number -> status.getPath

  private def filesIn(files: DurableFiles, partition: Path, current: StateLayout): Seq[FileStatus] =
    files.list(partition).filterNot(status => isOf(current, status.getPath.getName))

  /** True if a file or directory of a partition belongs to the state. The first one has no directory. */
  private def isOf(current: StateLayout, name: String): Boolean =
    name.startsWith("_") || name == current.store ||
      (current.store == StateLayout.FirstStore && !name.startsWith(StateLayout.Prefix))
}
