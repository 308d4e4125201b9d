package io.tailrace.inspect

import java.io.{ByteArrayInputStream, FileNotFoundException, IOException}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitMetadataBase}
import org.apache.spark.sql.execution.streaming.state.{
  OperatorStateMetadata,
  OperatorStateMetadataReader,
  OperatorStateMetadataV1
}
import org.apache.spark.sql.tailrace.SparkCheckpoints

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.Errors

/** Spark's own part of a query's checkpoint: which batches have completed, and which operators have state. Nothing is
  * written, not even a directory.
  */
private[inspect] final class SparkCheckpoint(root: Path, conf: Configuration) {
  private val files = CheckpointFileManager.create(root, conf)
  private val commits = new Path(root, "commits")

  /** @return None if this is no checkpoint */
  def completedBatches: Option[Seq[Long]] = numbersIn(commits)

  def commit(batch: Long): CommitMetadataBase = {
    val path = new Path(commits, batch.toString)
    val bytes = new DurableFiles(files).read(path, neededBy = s"the inspection of batch $batch")
    readable(path)(SparkCheckpoints.readCommit(new ByteArrayInputStream(bytes)))
  }

  /** @param batch the newest one that has completed */
  def operators(batch: Long): Seq[OperatorStateMetadata] = {
    val state = new Path(root, "state")
    numbersIn(state).getOrElse(Nil).flatMap { id =>
      val directory = new Path(state, id.toString)
      val first = OperatorStateMetadataV1.metadataFilePath(directory)
      val format = if (files.exists(first)) 1 else 2
      readable(first.getParent) {
        OperatorStateMetadataReader
          .createReader(directory, conf, format, batch, createMetadataDir = false)
          .read()
      }
    }
  }

  private def numbersIn(directory: Path): Option[Seq[Long]] =
    try Some(files.list(directory).toSeq.flatMap(_.getPath.getName.toLongOption).sorted)
    catch { case _: FileNotFoundException => None }

  /** Spark's readers throw exceptions of many types when they don't understand a file. */
  private def readable[T](path: Path)(read: => T): T =
    try read
    catch {
      case e: IOException => throw e
      case NonFatal(e) => throw Errors.stateFileCorrupt(path.toString, "Spark can't read it", e)
    }
}
