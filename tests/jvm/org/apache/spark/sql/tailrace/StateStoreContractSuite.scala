package org.apache.spark.sql.tailrace

import java.util.UUID

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import io.tailrace.state.TailraceStateStoreProvider

/** Spark's contract of a state store provider, for the stores of Spark's operators in a session of ours. */
final class StateStoreContractSuite
    extends StateStoreSuiteBase[TailraceStateStoreProvider]
    with ShortByDefault {
  import StateStoreTestsHelper._

  // One codec of eight.
  override protected def everyRun = Seq(
    "with codec lz4 -",
    "SPARK-18342",
    "SPARK-35659",
    "SPARK-54063",
    "reports memory usage"
  )

  override protected def notApplicable: Map[String, Seq[String]] = StateStoreContract.notApplicable

  private def newId(): StateStoreId = StateStoreId(newDir(), Random.nextInt(), 0)

  private def provider(
      id: StateStoreId = newId(),
      keys: StructType = keySchema,
      encoder: KeyStateEncoderSpec = NoPrefixKeyStateEncoderSpec(keySchema),
      columnFamilies: Boolean = false,
      sql: SQLConf = SQLConf.get,
      hadoop: Configuration = new Configuration
  ): TailraceStateStoreProvider = {
    val made = newStoreProviderNoInit()
    hadoop.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID.toString)
    made.init(
      id,
      keys,
      valueSchema,
      encoder,
      columnFamilies,
      new StateStoreConf(sql),
      hadoop,
      stateSchemaProvider = Some(new TestStateSchemaProvider)
    )
    made
  }

  override def newStoreProviderNoInit(): TailraceStateStoreProvider = new TailraceStateStoreProvider
  override def newStoreProvider(): TailraceStateStoreProvider = provider()
  override def newStoreProvider(id: StateStoreId): TailraceStateStoreProvider = provider(id)
  override def newStoreProvider(id: StateStoreId, columnFamilies: Boolean): TailraceStateStoreProvider =
    provider(id, columnFamilies = columnFamilies)
  override def newStoreProvider(id: StateStoreId, conf: Configuration): TailraceStateStoreProvider =
    provider(id, hadoop = conf)
  override def newStoreProvider(minDeltas: Int, versionsInMemory: Int): TailraceStateStoreProvider =
    provider(sql = getDefaultSQLConf(minDeltas, versionsInMemory))
  override def newStoreProvider(
      keys: StructType,
      encoder: KeyStateEncoderSpec,
      columnFamilies: Boolean
  ): TailraceStateStoreProvider =
    provider(keys = keys, encoder = encoder, columnFamilies = columnFamilies)
  override def newStoreProvider(columnFamilies: Boolean): TailraceStateStoreProvider =
    provider(columnFamilies = columnFamilies)
  override def newStoreProviderWithClonedConf(id: StateStoreId): TailraceStateStoreProvider =
    provider(id, sql = cloneSQLConf())

  override def getLatestData(
      of: TailraceStateStoreProvider,
      columnFamilies: Boolean
  ): Set[((String, Int), Int)] = {
    val files = Option(new java.io.File(of.stateStoreId.storeCheckpointLocation().toUri.getPath).list)
    val versions = files.toSeq.flatten.collect { case CommittedVersion(v) => v.toInt }
    getData(of, versions.maxOption.getOrElse(0), columnFamilies)
  }

  private val CommittedVersion = """(\d+)(?:_.+)?\.(?:zip|changelog)""".r

  override def getData(
      of: TailraceStateStoreProvider,
      version: Int,
      columnFamilies: Boolean
  ): Set[((String, Int), Int)] =
    tryWithProviderResource(newStoreProvider(of.stateStoreId, columnFamilies)) { reloaded =>
      val store = reloaded.getStore(version)
      try rowPairsToDataSet(store.iterator())
      finally store.abort()
    }

  override def getDefaultSQLConf(minDeltas: Int, versionsInMemory: Int): SQLConf = {
    val conf = cloneSQLConf()
    conf.setConf(SQLConf.STATE_STORE_MIN_DELTAS_FOR_SNAPSHOT, minDeltas)
    conf
  }
}

object StateStoreContract {

  /** Tests of `StateStoreSuiteBase` that are about something else than the suite's provider. */
  val notApplicable: Map[String, Seq[String]] = Map(
    "asks for Spark's default provider, by an empty configuration" -> Seq(
      "StateStore.get",
      "getWriteStore correctly uses existing read store",
      "two concurrent StateStores - one for read-only and one for read-write with release()"
    ),
    "is about the maintenance of a provider of its own" -> Seq(
      "SPARK-48997: maintenance threads with exceptions unload only themselves"
    ),
    "uses no provider" -> Seq(
      "SPARK-34270: StateStoreMetrics.combine should not override individual metrics",
      "SPARK-35763: StateStoreCustomMetric withNewDesc and createSQLMetric",
      "SPARK-42572: StateStoreProvider.validateStateRowFormat shouldn't check value row format when " +
        "SQLConf.STATE_STORE_FORMAT_VALIDATION_ENABLED is false",
      "StateStoreIterator onClose method is called only when close() is called",
      "test serialization and deserialization of NoPrefixKeyStateEncoderSpec",
      "test serialization and deserialization of PrefixKeyScanStateEncoderSpec",
      "test serialization and deserialization of RangeKeyScanStateEncoderSpec"
    )
  )
}
