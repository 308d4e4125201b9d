package io.tailrace.testkit

import java.io.File
import java.util.UUID

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.scalatest.Suite

import io.tailrace.common.TailraceConf
import io.tailrace.state.{BufferedRows, OwnStoreProvider, StoreKind, TailraceStateStore}

/** Stores over a checkpoint in the test's directory, without a query. */
trait StoreFixture extends TempDirectory with RowFixture { self: Suite =>
  private val providers = new ArrayBuffer[OwnStoreProvider]

  val CheckpointIds: (String, String) = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key -> "2"
  def retain(versions: Int): (String, String) = SQLConf.MIN_BATCHES_TO_RETAIN.key -> versions.toString

  def storeId: StateStoreId = StateStoreId(directory.toURI.toString, 0L, 0)

  def storeConf(settings: (String, String)*): StateStoreConf = {
    val conf = new SQLConf
    settings.foreach { case (key, value) => conf.setConfString(key, value) }
    StateStoreConf(conf)
  }

  def hadoopConf(): Configuration = {
    LocalSpark.session
    val conf = new Configuration
    conf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID.toString)
    conf
  }

  /** A provider as on an executor that has just started; closed after the test. */
  def newProvider(
      conf: StateStoreConf = storeConf(),
      keySchema: StructType = BufferedRows.KeySchema,
      valueSchema: StructType = BufferedRows.ValueSchema,
      hadoop: Configuration = hadoopConf()
  ): OwnStoreProvider = {
    val provider = new OwnStoreProvider
    provider.init(
      storeId,
      keySchema,
      valueSchema,
      NoPrefixKeyStateEncoderSpec(keySchema),
      useColumnFamilies = false,
      conf,
      hadoop,
      useMultipleValuesPerKey = false,
      None
    )
    providers += provider
    provider
  }

  /** The store of a version, as a task of the join gets it. */
  def open(provider: OwnStoreProvider, version: Long): TailraceStateStore =
    provider.getStore(version) match {
      case store: TailraceStateStore => store
      case other => throw new AssertionError(s"not Tailrace's store: $other")
    }

  def rowsOf(store: TailraceStateStore, kind: StoreKind): Seq[TestRow] =
    store.sectionsOf(kind).flatMap(TestRow.all)

  def storeDirectory: File = new File(storeId.storeCheckpointLocation().toUri.getPath)

  /** Names of the files of the store's checkpoint, without the file system's own. */
  def checkpointFiles: Set[String] =
    Option(storeDirectory.list).fold(Set.empty[String])(_.filterNot(_.startsWith(".")).toSet)

  /** The same without the attempts of manifests. */
  def plainNames: Set[String] = checkpointFiles.map(_.replaceFirst("\\.\\d+-.+\\.manifest$", ".manifest"))

  /** Settings with which each run has a file of its own. */
  def withoutInlineRuns(conf: Configuration): Configuration = {
    conf.set(TailraceConf.InlineRunBytes.key, "0")
    conf
  }

  /** Settings with which runs come when they are read, and only so many bytes of them stay. */
  def withLittleDisk(conf: Configuration, bytes: Long): Configuration = {
    conf.set(TailraceConf.BackgroundLoadBytes.key, "0")
    conf.set(TailraceConf.LocalRunBytes.key, bytes.toString)
    conf
  }

  def checkpointFile(suffix: String): File = {
    val found = checkpointFiles.filter(_.endsWith(suffix))
    assert(found.size == 1, s"files that end in $suffix")
    new File(storeDirectory, found.head)
  }

  override protected def afterEach(): Unit = {
    providers.foreach(_.close())
    providers.clear()
    super.afterEach()
  }
}
