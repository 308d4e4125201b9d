package io.tailrace.ops.rewrite

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace.CheckpointOperator
import org.apache.spark.sql.types.DataType

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.TailraceConf
import io.tailrace.join.{ColumnTexts, JoinCheckpoint}

/** A join in a checkpoint.
  *
  * @param bound       its settings, and where its state is
  * @param keys        types of the key columns
  * @param bucketWidth of a section, in microseconds
  */
private[tailrace] final case class StoredState(
    operator: Long,
    bound: JoinCheckpoint,
    keys: Seq[DataType],
    bucketWidth: Long
) {

  /** True if the number of a partition decides when its rows leave. */
  def releasesInSteps: Boolean = bound.settings.get(JoinCheckpoint.ReleaseEvery).exists(_ != "batch")
}

private[tailrace] object StoredState {

  /** @param version of the state */
  def read(
      spark: SparkCheckpoint,
      operator: CheckpointOperator,
      conf: Configuration,
      version: Long
  ): StoredState = {
    val directory = spark.directory(operator.id)
    val bound = JoinCheckpoint.read(directory, conf, version - 1)
    import bound.settings
    val keys = settings(JoinCheckpoint.LeftKeys)
    StoredState(
      operator.id,
      bound,
      // A wrong reading is noticed at the first key.
      ColumnTexts
        .read(keys)
        .getOrElse(throw RewriteErrors.keysUnreadable(directory.toString, keys))
        .map(_.dataType),
      Math.max(
        1000L * 1000,
        Seq(JoinCheckpoint.Before, JoinCheckpoint.After)
          .flatMap(JoinCheckpoint.duration(settings, _))
          .sum / TailraceConf.BucketsPerWindow.default
      )
    )
  }
}
