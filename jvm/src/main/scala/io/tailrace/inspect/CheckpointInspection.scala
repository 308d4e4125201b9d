package io.tailrace.inspect

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{CheckpointCommit, CheckpointOperator, SparkCheckpoints}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{Errors, LiteralPath}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.state.{CheckpointFiles, StateLayout}

/** Reads a query's checkpoint from outside, while the query runs or not. Manifests have all that it reports,
  * so it reads no run.
  */
final class CheckpointInspection(checkpoint: String, conf: Configuration) {
  private val root = LiteralPath.of(checkpoint)
  private val spark = new SparkCheckpoint(root, conf)

  /** @param version of the state; None takes that of the newest batch that has completed */
  def report(version: Option[Long]): CheckpointReport = {
    val (chosen, commit, found) = read(version)
    CheckpointReport(
      checkpoint,
      chosen - 1,
      chosen,
      if (commit.checkpointIds.exists(_.nonEmpty)) 2 else 1,
      Some(commit.watermarkMs).filter(_ > 0).map(ms => CheckpointReport.iso(ms * 1000)),
      found.map(report)
    )
  }

  /** The joins of the query, at a version of their state.
    *
    * @param version as for [[report]]
    */
  def joins(version: Option[Long]): Seq[JoinVersion] = read(version)._3

  /** The newest version, of a query with or without joins. */
  private[tailrace] def newest: QueryVersion = {
    val last = spark.completedBatches(checkpoint).last
    val commit = spark.commit(last)
    val (joins, others) = spark.operators(last).partition(isJoin)
    QueryVersion(
      last + 1,
      commit.watermarkMs,
      joins.map(joinVersion(_, last + 1, commit)),
      others.map(_.name)
    )
  }

  private def isJoin(operator: CheckpointOperator) = JoinCheckpoint.operatorNames(operator.name)

  /** The version, the commit that made it, and the joins at it. */
  private def read(version: Option[Long]): (Long, CheckpointCommit, Seq[JoinVersion]) = {
    val batches = spark.completedBatches(checkpoint)
    val newest = batches.last
    val operators = spark.operators(newest)
    val joins = operators.filter(isJoin)
    if (joins.isEmpty) throw Errors.checkpointWithoutJoin(checkpoint, operators.map(_.name))
    val chosen = version.getOrElse(newest + 1)
    if (version.isDefined) checkRetained(joins, batches, chosen)
    val commit = spark.commit(chosen - 1)
    (chosen, commit, joins.map(joinVersion(_, chosen, commit)))
  }

  private def joinVersion(join: CheckpointOperator, version: Long, commit: CheckpointCommit): JoinVersion = {
    // The operator's metadata say how many there were at first.
    val number = spark.partitions(version - 1)
    val bound = settings(join, version)
    val layout = bound.layout(number, spark.directory(join.id))
    val ids = commit.checkpointIds.flatMap(_.get(join.id)).map(_.map(_.head).toSeq)
    val partitions = directories(join, number, layout).zipWithIndex.map { case (directory, partition) =>
      PartitionVersion(partition, directory.toString, version, ids.map(_(partition)))
    }
    JoinVersion(join.id, join.name, version, bound, partitions)
  }

  private def report(join: JoinVersion): OperatorReport = {
    val manifests =
      join.partitions.map(part => part.files(conf).readManifest(part.version, part.id) -> part.id)
    CheckpointReport.operator(join.operator, join.name, join.settings, manifests)
  }

  private def directories(join: CheckpointOperator, number: Int, layout: StateLayout): Seq[Path] =
    (0 until number).map(SparkCheckpoints.partition(spark.state, join.id, _, layout.store))

  private def settings(join: CheckpointOperator, version: Long): JoinCheckpoint =
    JoinCheckpoint.read(spark.directory(join.id), conf, version - 1)

  /** The versions that each partition has, of those with as many partitions. None behind a rescaling. */
  private def held(joins: Seq[CheckpointOperator], version: Long): Seq[Set[Long]] = joins.flatMap { join =>
    val number = spark.partitions(version - 1)
    settings(join, version)
      .findLayout(number)
      .toSeq
      .flatMap(directories(join, number, _))
      .map(new CheckpointFiles(_, conf).versions)
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

/** The state of a query.
  *
  * @param watermarkMs of the batch after
  * @param others      names of the operators with state that aren't joins
  */
private[tailrace] final case class QueryVersion(
    version: Long,
    watermarkMs: Long,
    joins: Seq[JoinVersion],
    others: Seq[String]
)

/** A join of a query, at a version of its state.
  *
  * @param name     the operator's, in the query's progress
  * @param bound what the checkpoint is bound to
  */
private[tailrace] final case class JoinVersion(
    operator: Long,
    name: String,
    version: Long,
    bound: JoinCheckpoint,
    partitions: Seq[PartitionVersion]
) {
  def settings: Map[String, String] = bound.settings
}

/** A partition of it.
  *
  * @param id of the version, in Spark's checkpoint format 2
  */
private[tailrace] final case class PartitionVersion(
    partition: Int,
    directory: String,
    version: Long,
    id: Option[String]
) {
  def files(conf: Configuration): CheckpointFiles = new CheckpointFiles(new Path(directory), conf)
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
