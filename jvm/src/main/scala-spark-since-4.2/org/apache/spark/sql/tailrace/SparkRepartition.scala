package org.apache.spark.sql.tailrace

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions
import org.apache.spark.sql.execution.streaming.state.StateRewriter
import org.apache.spark.sql.execution.streaming.utils.StreamingUtils
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.internal.SQLConf

/** Spark's own repartition of the state of its operators. `OfflineStateRepartitionRunner` begins and commits a
  * batch, and repartitions all operators of a checkpoint. So only its parts are used: the reader of a store, which
  * refuses state that Spark can't repartition, and the rewriter, which repartitions the operators that it finds in the
  * checkpoint that it writes.
  *
  * @param batch   that has made the state
  * @param withIds whether the checkpoint is of format 2
  */
final class SparkRepartition(session: SparkSession, checkpoint: Path, batch: Long, withIds: Boolean) {
  import SparkRepartition._

  private val conf = session.sessionState.newHadoopConf()
  private val root = resolved(checkpoint)
  private val own = session.cloneSession()
  // Spark's rewriter takes it from the session, where the command's user may not have set it.
  own.conf.set(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, if (withIds) "2" else "1")

  private def resolved(path: Path): String = StreamingUtils.resolvedCheckpointLocation(conf, path.toString)

  /** Why Spark can't repartition an operator's state; none: it can. */
  def obstacle(operator: CheckpointOperator): Option[String] = own.withActive {
    operator.stores.flatMap { store =>
      try {
        read(operator.id, store): Unit
        None
      } catch { case NonFatal(e) => Some(obstacleIn(e).getOrElse(throw e)) }
    }.headOption
  }

  /** Spark's error for an operator; other errors mean that the checkpoint can't be read. */
  private def obstacleIn(error: Throwable): Option[String] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).collectFirst {
      case e: SparkThrowable if e.getCondition != null && e.getCondition.startsWith(Obstacle) =>
        e.getCondition
    }

  private def read(operator: Long, store: String): DataFrame = own.read
    .format("statestore")
    .option(StateSourceOptions.PATH, root)
    .option(StateSourceOptions.BATCH_ID, batch)
    .option(StateSourceOptions.OPERATOR_ID, operator)
    .option(StateSourceOptions.STORE_NAME, store)
    .option(StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES, "true")
    .load()

  /** Writes the state of the same version into another checkpoint, which has the operators' metadata, and the batch in
    * its offset log.
    *
    * @return ids of the stores in each new partition, by operator; none in format 1
    */
  def write(into: Path, partitions: Int): Option[Map[Long, Seq[Seq[String]]]] = own.withActive {
    new StateRewriter(
      own,
      readBatchId = batch,
      writeBatchId = batch,
      resolved(into),
      conf,
      Some(root),
      Some(_.repartition(partitions, col("partition_key")))
    ).run().map(_.map { case (operator, ids) => operator -> ids.map(_.toSeq).toSeq })
  }
}

private object SparkRepartition {
  private val Obstacle = "STATE_REPARTITION_INVALID_CHECKPOINT."
}
