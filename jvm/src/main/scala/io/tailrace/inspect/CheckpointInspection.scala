package io.tailrace.inspect

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CommitMetadataBase
import org.apache.spark.sql.execution.streaming.state.{OperatorStateMetadata, StateStoreId}

import io.tailrace.common.Errors
import io.tailrace.join.JoinCheckpoint
import io.tailrace.label.StoredLabelJoin
import io.tailrace.state.CheckpointFiles
import io.tailrace.sync.StoredSyncJoin

/** Looks into a query's checkpoint from outside, while the query runs or not: manifests tell all, so no run is read. */
final class CheckpointInspection(checkpoint: String, conf: Configuration) {
  private val root = new Path(checkpoint)
  private val state = new Path(root, "state")
  private val spark = new SparkCheckpoint(root, conf)

  /** @param version of the state; None takes that of the newest batch that has completed */
  def report(version: Option[Long]): CheckpointReport = {
    val batches = spark.completedBatches.getOrElse(throw Errors.checkpointNotFound(checkpoint))
    val newest = batches.lastOption.getOrElse(throw Errors.checkpointWithoutBatch(checkpoint))
    val operators = spark.operators(newest)
    val joins = operators.filter(o => CheckpointInspection.joins(o.operatorInfo.operatorName))
    if (joins.isEmpty) {
      throw Errors.checkpointWithoutJoin(checkpoint, operators.map(_.operatorInfo.operatorName))
    }
    val chosen = version.getOrElse(newest + 1)
    if (version.isDefined) checkRetained(joins, batches, chosen)
    val commit = spark.commit(chosen - 1)
    CheckpointReport(
      checkpoint,
      chosen - 1,
      chosen,
      if (commit.stateUniqueIds.exists(_.nonEmpty)) 2 else 1,
      Some(commit.nextBatchWatermarkMs).filter(_ > 0).map(ms => CheckpointReport.iso(ms * 1000)),
      joins.map(operator(_, chosen, commit))
    )
  }

  private def operator(
      metadata: OperatorStateMetadata,
      version: Long,
      commit: CommitMetadataBase
  ): OperatorReport = {
    val id = metadata.operatorInfo.operatorId
    val ids = commit.stateUniqueIds.flatMap(_.get(id))
    val manifests = partitions(metadata).zipWithIndex.map { case (files, partition) =>
      val checkpointId = ids.map(_(partition).head)
      files.readManifest(version, checkpointId) -> checkpointId
    }
    val settings = JoinCheckpoint.read(new Path(state, id.toString), conf, version - 1).settings
    CheckpointReport.operator(id, metadata.operatorInfo.operatorName, settings, manifests)
  }

  private def partitions(metadata: OperatorStateMetadata): Seq[CheckpointFiles] =
    (0 until metadata.stateStoresMetadata.head.numPartitions).map { partition =>
      val id = StateStoreId(state.toString, metadata.operatorInfo.operatorId, partition)
      new CheckpointFiles(id.storeCheckpointLocation(), conf)
    }

  // Of a version that is there in part a file is missing, which is another error.
  private def checkRetained(joins: Seq[OperatorStateMetadata], batches: Seq[Long], version: Long): Unit = {
    val held = joins.flatMap(partitions(_).map(_.versions))
    if (!batches.contains(version - 1) || !held.exists(_.contains(version))) {
      val retained = batches.map(_ + 1).filter(v => held.forall(_.contains(v)))
      throw Errors.checkpointVersionNotRetained(checkpoint, version, CheckpointInspection.ranges(retained))
    }
  }
}

object CheckpointInspection {
  private val joins = Set(StoredLabelJoin.OperatorName, StoredSyncJoin.OperatorName)

  /** "3 to 5, 8": numbers in ascending order, in few words. */
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
