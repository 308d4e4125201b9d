package io.tailrace.bench

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf

import io.tailrace.state.{BufferedRows, OwnStoreConf, OwnStoreProvider, RowShapes}

/** The state of one partition, opened through the provider as Spark does, without a query. */
object BenchProvider {

  /** @param checkpoint a directory's URI; partition 0 of operator 0 is below it */
  def create(checkpoint: String, conf: Configuration = new Configuration): OwnStoreProvider = {
    val provider = new OwnStoreProvider
    val settings = new SQLConf
    // There is no query whose coordinator could be told of a commit.
    settings.setConfString("spark.sql.streaming.stateStore.commitValidation.enabled", "false")
    provider.init(
      StateStoreId(checkpoint, 0, 0),
      BufferedRows.KeySchema,
      BufferedRows.ValueSchema,
      NoPrefixKeyStateEncoderSpec(BufferedRows.KeySchema),
      useColumnFamilies = false,
      new OwnStoreConf(settings, StateStoreId.DEFAULT_STORE_NAME, RowShapes.AsWritten),
      conf,
      useMultipleValuesPerKey = false,
      None
    )
    provider
  }
}
