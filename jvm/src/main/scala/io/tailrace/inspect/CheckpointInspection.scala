package io.tailrace.inspect

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{CheckpointCommit, CheckpointOperator, SparkCheckpoints}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.Errors
import io.tailrace.join.JoinCheckpoint
import io.tailrace.state.{CheckpointFiles, StateLayout}

/** Reads a query's checkpoint from outside, while the query runs or not. Manifests have all that it reports,
  * so it reads no run.
  */
final class CheckpointInspection(checkpoint: String, conf: Configuration) {
  private val root = new Path(checkpoint)
  private val spark = new SparkCheckpoint(root, conf)

  /** @param version of the state; None takes that of the newest batch that has completed */
  def report(version: Option[Long]): CheckpointReport = {
    val batches = spark.completedBatches(checkpoint)
    val newest = batches.last
    val operators = spark.operators(newest)
    val joins = operators.filter(operator => JoinCheckpoint.operatorNames(operator.name))
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
    val manifests = partitions(join, version).zipWithIndex.map { case (files, partition) =>
      val checkpointId = ids.map(_(partition).head)
      files.readManifest(version, checkpointId) -> checkpointId
    }
    CheckpointReport.operator(join.id, join.name, settings(join, version).settings, manifests)
  }

  private def partitions(join: CheckpointOperator, version: Long): Seq[CheckpointFiles] = {
    // The operator's metadata say how many there were at first.
    val number = spark.partitions(version - 1)
    of(join, number, settings(join, version).layout(number, spark.directory(join.id)))
  }

  private def of(join: CheckpointOperator, number: Int, layout: StateLayout): Seq[CheckpointFiles] =
    (0 until number)
      .map(SparkCheckpoints.partition(spark.state, join.id, _, layout.store))
      .map(new CheckpointFiles(_, conf))

  private def settings(join: CheckpointOperator, version: Long): JoinCheckpoint =
    JoinCheckpoint.read(spark.directory(join.id), conf, version - 1)

  /** The versions that each partition has, of those with as many partitions. None behind a rescaling. */
  private def held(joins: Seq[CheckpointOperator], version: Long): Seq[Set[Long]] = joins.flatMap { join =>
    val number = spark.partitions(version - 1)
    settings(join, version).findLayout(number).toSeq.flatMap(of(join, number, _)).map(_.versions)
  }

  // A version that some partitions lack is retained in part: a file of it is missing, which is another error.
  private def checkRetained(joins: Seq[CheckpointOperator], batches: Seq[Long], version: Long): Unit = {
    if (!batches.contains(version - 1) || !held(joins, version).exists(_.contains(version))) {
      val newest = held(joins, batches.last + 1)
      val retained = batches.map(_ + 1).filter(v => newest.forall(_.contains(v)))
      throw Errors.checkpointVersionNotRetained(checkpoint, version, CheckpointInspection.ranges(retained))
    }
  }
}

object CheckpointInspection {

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
