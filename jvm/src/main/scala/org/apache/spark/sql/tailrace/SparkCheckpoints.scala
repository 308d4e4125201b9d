package org.apache.spark.sql.tailrace

import java.io.{IOException, InputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkConf
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** A committed micro-batch in a checkpoint.
  *
  * @param watermarkMs   the query's watermark in the next batch
  * @param checkpointIds the ids of each partition's stores, by operator; only in checkpoints of format 2
  */
final case class CheckpointCommit(watermarkMs: Long, checkpointIds: Option[Map[Long, Array[Array[String]]]])

/** An operator with state in a checkpoint.
  *
  * @param stores names of those that each partition has
  */
final case class CheckpointOperator(id: Long, name: String, partitions: Int, stores: Seq[String])

/** Reads Spark's part of a checkpoint, without a session. */
object SparkCheckpoints {

  /** The settings that a session with these properties has for files, Spark's own among them. */
  def hadoopConf(properties: Map[String, String]): Configuration = {
    val conf = SparkHadoopUtil.newConfiguration(new SparkConf(false).setAll(properties))
    properties.foreach { case (name, value) => conf.set(name, value) }
    conf
  }

  /** The setting that names the file manager of all checkpoints. */
  val FileManagerKey: String = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key

  /** The manager that the settings name, or Spark's choice for the file system. */
  def files(root: Path, conf: Configuration): CheckpointFileManager = CheckpointFileManager.create(root, conf)

  def readCommit(in: InputStream): CheckpointCommit = {
    val commit = CheckpointFormats.commit(in)
    CheckpointCommit(commit.nextBatchWatermarkMs, commit.stateUniqueIds)
  }

  /** The directory of an operator's metadata. */
  def metadata(directory: Path): Path = OperatorStateMetadataV1.metadataFilePath(directory).getParent

  /** @param directory of the operator's state
    * @param batch     the newest one that has completed
    */
  def operator(directory: Path, conf: Configuration, batch: Long): Option[CheckpointOperator] = {
    val first = OperatorStateMetadataV1.metadataFilePath(directory)
    val format = if (files(directory, conf).exists(first)) 1 else 2
    CheckpointFormats.operator(directory, conf, format, batch).map { metadata =>
      val stores = CheckpointFormats.stores(metadata)
      CheckpointOperator(
        metadata.operatorInfo.operatorId,
        metadata.operatorInfo.operatorName,
        stores.headOption.fold(0)(_.numPartitions),
        stores.map(_.storeName)
      )
    }
  }

  /** An operator's metadata, where a file for each of some batches has it: the newest one. */
  def newestMetadata(directory: Path, conf: Configuration, batch: Long): Option[Path] = {
    val versions = OperatorStateMetadataV2.metadataDirPath(directory)
    val found = files(directory, conf)
    Option
      .when(found.exists(versions))(found.list(versions).toSeq.flatMap(_.getPath.getName.toLongOption))
      .flatMap(_.filter(_ <= batch).maxOption)
      .map(OperatorStateMetadataV2.metadataFilePath(directory, _))
  }

  /** Moves a file, and replaces one of that name. */
  def move(files: CheckpointFileManager, from: Path, to: Path, conf: Configuration): Unit = {
    // With its checksum, where a local file system has one.
    files.delete(to)
    files match {
      case renaming: CheckpointFileManager.RenameHelperMethods =>
        renaming.renameTempFile(from, to, overwriteIfPossible = true)
      case _ =>
        if (!from.getFileSystem(conf).rename(from, to)) throw new IOException(s"$from wasn't moved to $to")
    }
  }

  /** @param state the directory of all operators' state */
  def partition(state: Path, operator: Long, partition: Int, store: String): Path =
    StateStoreId(state.toString, operator, partition, store).storeCheckpointLocation()

  /** True if a query of this JVM runs with the checkpoint. */
  def isInUse(session: SparkSession, root: Path, conf: Configuration): Boolean = {
    val qualified = root.getFileSystem(conf).makeQualified(root)
    StreamingRun.checkpointsInUse(session).exists(new Path(_) == qualified)
  }
}

/** Spark's `statestore` source takes the provider of all stores from the checkpoint's offset log, where Spark
  * has written the session's. Stores of an operator with its own provider have to be read through that one.
  */
object SparkStateReader {

  /** The settings of an operator's stores: of its directory, its number of partitions, and a session. */
  type Settings = (Path, Configuration, Int, SQLConf) => StateStoreConf

  /** Reads through another provider.
    *
    * @param isOwn whether a store is one of that provider's, by the schema of its keys
    */
  def through(plan: LogicalPlan, isOwn: StructType => Boolean)(settings: Settings): LogicalPlan =
    plan.resolveOperators { case relation: DataSourceV2Relation =>
      relation.table match {
        case _: Own => relation
        case spark: StateTable if keysOf(spark).exists(isOwn) =>
          relation.copy(table = own(SparkSession.active, relation, settings))
        case _ => relation
      }
    }

  private def keysOf(table: StateTable): Option[StructType] =
    table.schema.find(_.name == "key").map(_.dataType).collect { case keys: StructType => keys }

  private def own(session: SparkSession, relation: DataSourceV2Relation, settings: Settings) = {
    val hadoopConf = session.sessionState.newHadoopConf()
    val source = StateSourceOptions(session, hadoopConf, relation.options)
    val pinned = session.sessionState.conf.clone()
    CheckpointFormats
      .offsets(session, source.resolvedCpLocation)
      .get(source.batchId)
      .flatMap(OffsetEntry.metadata)
      .foreach(OffsetSeqMetadata.setSessionConf(_, pinned))
    val columns = relation.table.asInstanceOf[StateTable].schema
    val keys = NoPrefixKeyStateEncoderSpec(columns("key").dataType.asInstanceOf[StructType])
    val partitions = pinned.getConf(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL).get
    val directory = new Path(source.stateCheckpointLocation, source.operatorId.toString)
    val conf = settings(directory, hadoopConf, partitions, pinned)
    new OneFamilyTable(session, columns, source, conf, partitions, keys) with Own
  }

  private trait Own
}
