package io.tailrace.rescale

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types.DataType

import io.tailrace.common.{Durability, TailraceConf}
import io.tailrace.state._

/** A join's state whose number of partitions changes.
  *
  * @param state       the checkpoint's directory of all operators' state
  * @param version     of the state, which stays
  * @param keys        types of the key columns
  * @param bucketWidth see [[LivingRows]]
  */
private[rescale] final case class JoinState(
    state: String,
    operator: Long,
    version: Long,
    keys: Seq[DataType],
    bucketWidth: Long,
    before: StateSet,
    after: StateSet
)

/** One of its two sets of partitions.
  *
  * @param ids of the version in each partition, in Spark's checkpoint format 2
  */
private[rescale] final case class StateSet(layout: StateLayout, ids: Option[Seq[String]]) {
  def id(partition: Int): Option[String] = ids.map(_(partition))
}

/** What a partition gives to a new one.
  *
  * @param run complete, and in the new partition's directory
  */
private[rescale] final case class SplitPart(target: Int, run: Run)

/** @param expiredThrough see [[Manifest]]
  * @param operatorTime   the same
  */
private[rescale] final case class SplitResult(
    partition: Int,
    expiredThrough: Long,
    operatorTime: Long,
    parts: Seq[SplitPart]
)

/** Splits one partition, in a task of a Spark job. It reads each row once, and writes it once. A task that is
  * lost or runs twice leaves files that no manifest names.
  */
private[rescale] final class PartitionSplit(join: JoinState, partition: Int, hadoopConf: Configuration) {
  import join.{after, before, operator, version}

  private val targets =
    new RowTargets(join.keys, partition, before.layout.partitions, after.layout.partitions)
  private val directory = SparkState.localDirectory(s"tailrace-rescale-$operator-$partition")
  private val conf = {
    // A state that was never written would be an empty one.
    val set = new Configuration(hadoopConf)
    set.set(TailraceConf.StateDurability.key, Durability.Full.name)
    set
  }

  def run(): SplitResult = {
    val provider = open()
    try {
      val store = provider.getStore(version, before.id(partition), false, false)
      try {
        val parts = Seq.newBuilder[SplitPart]
        val levels = store.levels
        val rows = new LivingRows(store, targets, join.bucketWidth, () => new SplitRuns(() => newFile()))
        rows.split((name, runs) => runs.foreach(parts += upload(_, levels(name))))
        SplitResult(partition, store.expiredThrough, store.operatorTime, parts.result())
      } finally store.abort()
    } finally {
      provider.close()
      Option(directory.listFiles).toSeq.flatten.foreach(_.delete())
      directory.delete(): Unit
    }
  }

  private def open(): OwnStoreProvider = {
    val provider = new OwnStoreProvider
    provider.init(
      StateStoreId(join.state, operator, partition, before.layout.store),
      BufferedRows.KeySchema,
      BufferedRows.ValueSchema,
      NoPrefixKeyStateEncoderSpec(BufferedRows.KeySchema),
      useColumnFamilies = false,
      new StateStoreConf(new SQLConf),
      conf,
      useMultipleValuesPerKey = false,
      None
    )
    provider
  }

  private def newFile(): File = Files.createTempFile(directory.toPath, "", ".run").toFile

  private def upload(split: SplitRun, level: Int): SplitPart = {
    val files = Rescale.filesOf(join, split.target, conf)
    val run = files.upload(split.file, StateFileNames.run(version))
    split.file.delete()
    SplitPart(split.target, run.copy(sections = split.sections, level = level))
  }
}
