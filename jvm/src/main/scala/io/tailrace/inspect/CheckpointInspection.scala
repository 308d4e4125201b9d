package io.tailrace.inspect

import java.io.{ByteArrayInputStream, FileNotFoundException, IOException}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{CheckpointCommit, CheckpointOperator, SparkCheckpoints}

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.Errors
import io.tailrace.join.JoinCheckpoint
import io.tailrace.label.StoredLabelJoin
import io.tailrace.state.CheckpointFiles
import io.tailrace.sync.StoredSyncJoin

/** Reads a query's checkpoint from outside, while the query runs or not. Manifests have all that it reports,
  * so it reads no run.
  */
final class CheckpointInspection(checkpoint: String, conf: Configuration) {
  private val root = new Path(checkpoint)
  private val state = new Path(root, "state")
  private val spark = new SparkCheckpoint(root, state, conf)

  /** @param version of the state; None takes that of the newest batch that has completed */
  def report(version: Option[Long]): CheckpointReport = {
    val batches = spark.completedBatches.getOrElse(throw Errors.checkpointNotFound(checkpoint))
    val newest = batches.lastOption.getOrElse(throw Errors.checkpointWithoutBatch(checkpoint))
    val operators = spark.operators(newest)
    val joins = operators.filter(o => CheckpointInspection.joins(o.name))
    if (joins.isEmpty) throw Errors.checkpointWithoutJoin(checkpoint, operators.map(_.name))
    val chosen = version.getOrElse(newest + 1)
    if (version.isDefined) checkRetained(joins, batches, chosen)
    val commit = spark.commit(chosen - 1)
    CheckpointReport(
      checkpoint,
      chosen - 1,
      chosen,
      if (commit.checkpointIds.exists(_.nonEmpty)) 2 else 1,
      Some(commit.watermarkMs).filter(_ > 0).map(ms => CheckpointReport.iso(ms * 1000)),
      joins.map(report(_, chosen, commit))
    )
  }

  private def report(join: CheckpointOperator, version: Long, commit: CheckpointCommit): OperatorReport = {
    val ids = commit.checkpointIds.flatMap(_.get(join.id))
    val manifests = partitions(join).zipWithIndex.map { case (files, partition) =>
      val checkpointId = ids.map(_(partition).head)
      files.readManifest(version, checkpointId) -> checkpointId
    }
    val settings = JoinCheckpoint.read(new Path(state, join.id.toString), conf, version - 1).settings
    CheckpointReport.operator(join.id, join.name, settings, manifests)
  }

  private def partitions(join: CheckpointOperator): Seq[CheckpointFiles] =
    (0 until join.partitions)
      .map(SparkCheckpoints.partition(state, join.id, _))
      .map(new CheckpointFiles(_, conf))

  // A version that some partitions lack is retained in part: a file of it is missing, which is another error.
  private def checkRetained(joins: Seq[CheckpointOperator], batches: Seq[Long], version: Long): Unit = {
    val held = joins.flatMap(partitions(_).map(_.versions))
    if (!batches.contains(version - 1) || !held.exists(_.contains(version))) {
      val retained = batches.map(_ + 1).filter(v => held.forall(_.contains(v)))
      throw Errors.checkpointVersionNotRetained(checkpoint, version, CheckpointInspection.ranges(retained))
    }
  }
}

object CheckpointInspection {
  private val joins = Set(StoredLabelJoin.OperatorName, StoredSyncJoin.OperatorName)

  /** Numbers in ascending order as text: "3 to 5, 8". */
  private[inspect] def ranges(numbers: Seq[Long]): String = {
    val runs = numbers.foldLeft(List.empty[(Long, Long)]) {
      case ((first, last) :: before, n) if n == last + 1 => (first, n) :: before
      case (before, n) => (n, n) :: before
    }
    runs.reverse
      .map { case (first, last) => if (first == last) s"$first" else s"$first to $last" }
      .mkString(", ")
  }
}

/** Spark's own part of a query's checkpoint: the batches that have completed, and the operators with state.
  * It writes nothing, not even a directory.
  */
private final class SparkCheckpoint(root: Path, state: Path, conf: Configuration) {
  private val files = SparkCheckpoints.files(root, conf)
  private val commits = new Path(root, "commits")

  /** @return None if this is no checkpoint */
  def completedBatches: Option[Seq[Long]] = numbersIn(commits)

  def commit(batch: Long): CheckpointCommit = {
    val path = new Path(commits, batch.toString)
    val bytes = new DurableFiles(files).read(path, neededBy = s"the inspection of batch $batch")
    readable(path)(SparkCheckpoints.readCommit(new ByteArrayInputStream(bytes)))
  }

  /** @param batch the newest one that has completed */
  def operators(batch: Long): Seq[CheckpointOperator] = numbersIn(state).getOrElse(Nil).flatMap { id =>
    val directory = new Path(state, id.toString)
    readable(SparkCheckpoints.metadata(directory))(SparkCheckpoints.operator(directory, conf, batch))
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
