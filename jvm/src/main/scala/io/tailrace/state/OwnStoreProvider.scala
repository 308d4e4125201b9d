package io.tailrace.state

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.types.StructType

import io.tailrace.common.TailraceConf

/** The state store provider of Tailrace's operators. They name it in the settings that they hand to Spark's
  * registry of stores. The session's provider is for Spark's operators (`adr/012`).
  *
  * {{{
  *   StoredJoinExec     ── conf(session's) ──> StateStore.get ──> OwnStoreProvider ──> OwnStore
  *   Spark's operators  ── session's conf ───> StateStore.get ──> HDFS's or RocksDB's provider
  * }}}
  */
final class OwnStoreProvider extends WholeStateProvider[TailraceStateStore] {
  private var store: Option[OwnStore] = None

  override protected def open(
      id: StateStoreId,
      keys: StructType,
      conf: StateStoreConf,
      hadoopConf: Configuration
  ): Unit = {
    require(BufferedRows.isKeySchema(keys), s"$id is not a store of Tailrace's: $keys")
    def setting(key: String) = Option(hadoopConf.get(key))
    BlockCache.ofExecutor.ask(TailraceConf.BlockCacheBytes.read(setting))
    LocalDisk.ofExecutor.configure(TailraceConf.LocalRunBytes.read(setting))
    val (located, settings, shapes) = conf match {
      case own: OwnStoreConf => (id.copy(storeName = own.store), hadoopConf, own.shapes)
      // A reader beside the query: it must not take the files that the query's next owner needs.
      case _ => (id, withoutLocalDirectory(hadoopConf), RowShapes.AsWritten)
    }
    val location = located.storeCheckpointLocation()
    store = Some(new OwnStore(id, location, conf, settings, shapes))
  }

  private def withoutLocalDirectory(conf: Configuration): Configuration =
    if (conf.get(TailraceConf.LocalDirectory.key) == null) conf
    else {
      val copy = new Configuration(conf)
      copy.unset(TailraceConf.LocalDirectory.key)
      copy
    }

  override def load(
      version: Long,
      checkpointId: Option[String],
      empty: Boolean
  ): TailraceStateStore =
    store
      .getOrElse(throw new IllegalStateException("the provider was not initialised"))
      .store(version, checkpointId, empty)

  override def maintain(): Unit = store.foreach(_.maintain())

  override def close(): Unit = store.foreach(_.close())
}

/** The session's settings, with Tailrace's provider. Each batch needs them, and to clone a session's conf costs
  * more than this.
  *
  * @param store  see [[StateLayout]]. Spark and its readers know each store of ours by the first name
  * @param shapes of the operator's rows
  */
final class OwnStoreConf(session: SQLConf, val store: String, val shapes: RowShapes)
    extends SparkStoreConf(session) {
  override val providerClass: String = classOf[OwnStoreProvider].getName
}

/** Spark's RocksDB provider under the name that checkpoints from before version 0.1 have in their offset log.
  * Spark's operators kept their state in it. Without the class, Spark's state reader could not open them.
  */
final class TailraceStateStoreProvider extends SparkRocksDBProvider
