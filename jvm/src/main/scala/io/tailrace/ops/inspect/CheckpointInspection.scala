package io.tailrace.ops.inspect

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{CheckpointCommit, CheckpointOperator, SparkCheckpoints}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{Errors, EventTimes, LiteralPath}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.state.{CheckpointFiles, Manifest, StateLayout}

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

/** The content of a checkpoint, as `tailrace inspect --json` prints it. `jvm/docs/formats.md` describes the
  * fields. Times are ISO 8601 in UTC, and None if there are no rows.
  */
final case class CheckpointReport(
    checkpoint: String,
    batch: Long,
    version: Long,
    checkpointFormat: Int,
    watermark: Option[String],
    operators: Seq[OperatorReport]
)

/** One Tailrace operator: the sums over its partitions, then each of them. */
final case class OperatorReport(
    operator: Long,
    name: String,
    settings: Map[String, String],
    rows: Long,
    bytes: Long,
    files: Int,
    fileBytes: Long,
    stores: Seq[StoreReport],
    partitions: Seq[PartitionReport]
)

/** @param expiredThrough the results of left rows up to this time have been emitted */
final case class PartitionReport(
    partition: Int,
    checkpointId: Option[String],
    expiredThrough: Option[String],
    rows: Long,
    bytes: Long,
    files: Int,
    fileBytes: Long,
    stores: Seq[StoreReport]
)

/** @param bytes         of keys and values before compression, of the sections that hold the rows
  * @param oldestIsBound whether `oldest` is a bound: rows before it have expired, and only the run itself has
  *                      the time of the next row
  */
final case class StoreReport(
    store: String,
    rows: Long,
    bytes: Long,
    oldest: Option[String],
    oldestIsBound: Boolean,
    newest: Option[String]
)

object CheckpointReport {

  def iso(micros: Long): String = EventTimes.iso(micros)

  def operator(
      id: Long,
      name: String,
      settings: Map[String, String],
      partitions: Seq[(Manifest, Option[String])]
  ): OperatorReport = {
    val reports = partitions.zipWithIndex.map { case ((manifest, id), i) => partition(i, manifest, id) }
    OperatorReport(
      id,
      name,
      settings,
      reports.map(_.rows).sum,
      reports.map(_.bytes).sum,
      reports.map(_.files).sum,
      reports.map(_.fileBytes).sum,
      stores(partitions.map(_._1)),
      reports
    )
  }

  private def partition(id: Int, manifest: Manifest, checkpointId: Option[String]): PartitionReport = {
    val byStore = stores(Seq(manifest))
    PartitionReport(
      id,
      checkpointId,
      Some(manifest.expiredThrough).filter(_ != Long.MinValue).map(iso),
      byStore.map(_.rows).sum,
      byStore.map(_.bytes).sum,
      manifest.runs.size,
      manifest.runs.map(_.length).sum,
      byStore
    )
  }

  private def stores(manifests: Seq[Manifest]): Seq[StoreReport] = {
    val alive = manifests.flatMap(m => m.runs.flatMap(_.sections).map(_ -> m.expiry))
    alive.groupBy(_._1.kind).toSeq.sortBy(_._1.id).map { case (kind, sections) =>
      val times = sections.filter { case (section, _) => section.liveRows > 0 }
      // Of two at the same time the row that is sure to be there comes first.
      val oldest = times
        .map { case (section, expiry) =>
          val time = expiry.notBefore(section)
          (time, time > section.minTime)
        }
        .sorted
        .headOption
      StoreReport(
        kind.name,
        sections.map { case (section, _) => section.liveRows }.sum,
        sections.map(_._1.bytes).sum,
        oldest.map { case (time, _) => iso(time) },
        oldest.exists { case (_, isBound) => isBound },
        times.map(_._1.maxTime).maxOption.map(iso)
      )
    }
  }
}
