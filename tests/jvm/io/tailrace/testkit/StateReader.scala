package io.tailrace.testkit

import java.io.File

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state._

import io.tailrace.common.TailraceStateException
import io.tailrace.state.{BufferedRows, OwnStoreProvider}

/** Looks into the state of a join as it stands in a checkpoint: opens the store anew and iterates over it. */
object StateReader {

  /** Opens a partition's provider, which the caller closes. */
  def open(spark: SparkSession, checkpoint: File, partition: Int, operator: Long = 0): OwnStoreProvider = {
    val provider = new OwnStoreProvider
    provider.init(
      StateStoreId(new Path(checkpoint.toURI).toString + "/state", operator, partition),
      BufferedRows.KeySchema,
      BufferedRows.ValueSchema,
      NoPrefixKeyStateEncoderSpec(BufferedRows.KeySchema),
      useColumnFamilies = false,
      new StateStoreConf(spark.sessionState.conf),
      spark.sessionState.newHadoopConf(),
      useMultipleValuesPerKey = false,
      None
    )
    provider
  }

  /** What Spark's maintenance does, now, until it works. */
  def purge(spark: SparkSession, checkpoint: File, partitions: Int): Unit =
    (0 until partitions).foreach { partition =>
      val provider = open(spark, checkpoint, partition)
      def attempt(left: Int): Unit =
        try provider.maintain()
        catch { case _: TailraceStateException if left > 0 => attempt(left - 1) }
      try attempt(20)
      finally provider.close()
    }

  /** @return the number of rows in each store, by its name, over all partitions */
  def rows(
      spark: SparkSession,
      checkpoint: File,
      version: Long,
      operator: Long = 0,
      partitions: Int = 2
  ): Map[String, Int] =
    (0 until partitions)
      .flatMap { partition =>
        val provider = open(spark, checkpoint, partition, operator)
        val store = provider.getStore(version)
        try store.iterator().map(_.key.getUTF8String(0).toString).toVector
        finally {
          store.abort()
          provider.close()
        }
      }
      .groupMapReduce(identity)(_ => 1)(_ + _)
}
