package org.apache.spark.sql.tailrace

import org.apache.hadoop.fs.Path

/** Spark's own repartition of the state of its operators, which this minor version doesn't have yet.
  *
  * @param batch   that has made the state
  * @param withIds whether the checkpoint is of format 2
  */
final class SparkRepartition(session: SparkSession, checkpoint: Path, batch: Long, withIds: Boolean) {

  /** Why Spark can't repartition an operator's state; none: it can. */
  def obstacle(operator: CheckpointOperator): Option[String] =
    Option.when(operator.stores.nonEmpty)(s"Spark ${session.version} can't repartition state, Spark 4.2 can")

  /** Nobody calls it where there is an obstacle. */
  def write(into: Path, partitions: Int): Option[Map[Long, Seq[Seq[String]]]] =
    throw new UnsupportedOperationException(
      s"$checkpoint at batch $batch (ids: $withIds) into $partitions partitions of $into"
    )
}
