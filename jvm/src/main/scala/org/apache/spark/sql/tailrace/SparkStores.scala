package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.datasources.v2.state.{StateSourceOptions, StateTable}
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** Spark's RocksDB provider, for a class outside of Spark's packages. */
abstract class SparkRocksDBProvider extends RocksDBStateStoreProvider

/** Spark's `statestore` source takes the provider of all stores from the checkpoint's offset log, where Spark has written the
  * session's. Stores of an operator that brings its own provider have to be read through that one.
  */
object SparkStateReader {

  /** Reads through another provider.
    *
    * @param isOwn whether a store is one of that provider's, by the schema of its keys
    * @param conf  the settings of such a store in a session
    */
  def through(plan: LogicalPlan, isOwn: StructType => Boolean, conf: SQLConf => StateStoreConf): LogicalPlan =
    plan.resolveOperators { case relation: DataSourceV2Relation =>
      relation.table match {
        case _: OwnStateTable => relation
        case spark: StateTable if keysOf(spark).exists(isOwn) =>
          relation.copy(table = own(SparkSession.active.asInstanceOf[SparkSession], relation, conf))
        case _ => relation
      }
    }

  private def keysOf(table: StateTable): Option[StructType] =
    table.schema.find(_.name == "key").map(_.dataType).collect { case keys: StructType => keys }

  private def own(session: SparkSession, relation: DataSourceV2Relation, conf: SQLConf => StateStoreConf) = {
    val hadoopConf = session.sessionState.newHadoopConf()
    val source = StateSourceOptions(session, hadoopConf, relation.options)
    val pinned = session.sessionState.conf.clone()
    new StreamingQueryCheckpointMetadata(session, source.resolvedCpLocation, true).offsetLog
      .get(source.batchId)
      .flatMap(_.metadataOpt)
      .foreach(OffsetSeqMetadata.setSessionConf(_, pinned))
    new OwnStateTable(
      session,
      relation.table.asInstanceOf[StateTable].schema,
      source,
      conf(pinned),
      pinned.getConf(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL).get
    )
  }

  private final class OwnStateTable(
      session: SparkSession,
      schema: StructType,
      source: StateSourceOptions,
      conf: StateStoreConf,
      partitions: Int
  ) extends StateTable(
        session,
        schema,
        source,
        conf,
        partitions,
        NoPrefixKeyStateEncoderSpec(schema("key").dataType.asInstanceOf[StructType]),
        None,
        None,
        None,
        None
      )
}
