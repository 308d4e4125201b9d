package org.apache.spark.sql.tailrace

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** What Spark expects of its RocksDB provider, with ours in front of it. */
final class RocksDBContractSuite extends RocksDBStateStoreSuite with ShortByDefault {

  override protected def everyRun = Seq(
    "state transitions with",
    "abort after commit",
    "multiple commits",
    "get metrics works only after commit",
    "get checkpoint info works only after commit",
    "read store and write store with common stamp",
    "SPARK-56476",
    "SPARK-54389",
    "task completion listener",
    "checksum files are also cleaned up",
    "get, put, iterator, commit, load with multiple column families",
    "deleteRange"
  )

  override protected def notApplicable: Map[String, Seq[String]] = (StateStoreContract.notApplicable ++ Map(
    "asks for Spark's RocksDB provider by its class name" ->
      Seq("RocksDB confs are passed correctly from SparkSession to db instance"),
    "reads golden files of Spark's sources as files; Spark publishes them inside of a jar" ->
      Seq("Load spark 4.0 golden checkpoint written without checksum")
  )).map { case (reason, names) => reason -> names.flatMap(inAllModes) }

  private def inAllModes(name: String): Seq[String] =
    for {
      changelog <- Seq("with", "without")
      encoding <- Seq("unsaferow", "avro")
    } yield s"$name ($changelog changelog checkpointing) (encoding = $encoding)"

  override def newStoreProviderNoInit(): RocksDBStateStoreProvider = new ThroughTailrace

  override def newStoreProvider(
      id: StateStoreId,
      encoder: KeyStateEncoderSpec,
      keys: StructType,
      sqlConf: Option[SQLConf],
      conf: Configuration,
      useColumnFamilies: Boolean,
      useMultipleValuesPerKey: Boolean
  ): RocksDBStateStoreProvider = {
    val provider = newStoreProviderNoInit()
    conf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID.toString)
    provider.init(
      id,
      keys,
      valueSchema,
      encoder,
      useColumnFamilies,
      new StateStoreConf(sqlConf.getOrElse(SQLConf.get)),
      conf,
      useMultipleValuesPerKey,
      Some(new TestStateSchemaProvider)
    )
    provider
  }
}
