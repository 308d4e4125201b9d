package org.apache.spark.sql.tailrace

import java.util
import java.util.HexFormat

import scala.jdk.CollectionConverters._

import org.apache.spark.api.python.SerDeUtil
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Cast,
  EvalMode,
  Expression,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.classic.{
  ColumnNodeToExpressionConverter,
  Dataset => ClassicDataset,
  ExpressionUtils
}
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.python.EvaluatePython
import org.apache.spark.sql.execution.{QueryExecution, SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Dataset}
import org.apache.spark.util.SerializableConfiguration

import net.razorvine.pickle.Unpickler

/** Spark's internals that plans and operators use. */
object SparkPlans {

  def execution(frame: Dataset[_]): QueryExecution = frame.asInstanceOf[ClassicDataset[_]].queryExecution

  def analyzed(frame: Dataset[_]): LogicalPlan = execution(frame).analyzed

  def session(frame: Dataset[_]): SparkSession = execution(frame).sparkSession

  def toFrame(session: SparkSession, plan: LogicalPlan): DataFrame = ClassicDataset.ofRows(session, plan)

  /** The number by which a Spark Connect client knows a plan; none: it isn't one of a client's. */
  def clientNumber(plan: LogicalPlan): Option[Long] = plan.getTagValue(LogicalPlan.PLAN_ID_TAG)

  /** A plan under the number by which columns of a Spark Connect client name another one: `joined["user"]`. A plan that
    * has a number already, as one of the client's own DataFrames, stays below it.
    */
  def inPlaceOf(other: LogicalPlan, plan: LogicalPlan): LogicalPlan =
    clientNumber(other).fold(plan) { id =>
      val own = if (clientNumber(plan).isEmpty) plan else Project(plan.output, plan)
      own.setTagValue(LogicalPlan.PLAN_ID_TAG, id)
      own
    }

  /** A batch DataFrame of rows of Spark's own kind. */
  def frameOf(session: SparkSession, rows: RDD[InternalRow], schema: StructType): DataFrame =
    session.internalCreateDataFrame(rows, schema)

  /** The type with nulls allowed in it, at any depth. */
  def nullable(dataType: DataType): DataType = dataType.asNullable

  /** Spark's option of a reader of files, without which a path is a pattern. */
  val TakesPatterns: String = DataSource.GLOB_PATHS_KEY

  /** True if Parquet files have columns of a type. */
  def isOfParquet(dataType: DataType): Boolean = new ParquetFileFormat().supportDataType(dataType)

  /** Columns without the properties that don't change the bytes of a row: nullability, metadata, and user-defined
    * types, which are stored as rows of other types.
    */
  def asStored(columns: StructType): StructType =
    StructType(columns.map(column => StructField(column.name, stored(column.dataType))))

  private def stored(dataType: DataType): DataType = dataType match {
    case defined: UserDefinedType[_] => stored(defined.sqlType)
    case fields: StructType => asStored(fields)
    case ArrayType(element, _) => ArrayType(stored(element))
    case MapType(key, value, _) => MapType(stored(key), stored(value))
    case other => other
  }

  /** True if a literal is a value of a type, as `7` is one of `BIGINT`, and `3.5` and `true` are not. */
  def isValueOf(literal: Column, kind: DataType): Boolean = {
    val value = expression(literal)
    // Any zone will do: a value goes there and back.
    def cast(of: Expression, to: DataType) = Cast(of, to, Some("UTC"), EvalMode.TRY)
    def comparable = (value.dataType == BooleanType) == (kind == BooleanType) &&
      Cast.canTryCast(value.dataType, kind) && Cast.canTryCast(kind, value.dataType)
    def comesBack = {
      val there = cast(value, kind)
      there.eval() != null && cast(there, value.dataType).eval() == value.eval()
    }
    value.foldable && (value.dataType == kind || (comparable && comesBack))
  }

  /** A literal's value, as text that doesn't depend on the session. */
  def valueText(literal: Column): String = expression(literal).eval() match {
    case bytes: Array[Byte] => HexFormat.of.formatHex(bytes)
    case value => String.valueOf(value)
  }

  def column(of: Expression): Column = ExpressionUtils.column(of)

  /** A cast that fails where a value doesn't fit, whether the session is in ANSI mode or not. */
  def strictCast(value: Column, to: DataType): Column =
    column(Cast(expression(value), to, None, EvalMode.ANSI))

  def expression(of: Column): Expression =
    ColumnNodeToExpressionConverter(of.node) match {
      case Alias(child, _) => child
      case other => other
    }

  def hasStrategy(session: SparkSession, strategy: SparkStrategy): Boolean =
    session.sessionState.planner.strategies.contains(strategy)

  /** A plan after the session's optimizer. Spark itself optimizes a stream only when it has been started. */
  def optimized(session: SparkSession, plan: LogicalPlan): LogicalPlan =
    session.sessionState.optimizer.execute(plan.clone())

  /** A session with the same settings, to be given others. */
  def copyOf(session: SparkSession): SparkSession = session.cloneSession()

  /** A copy of a session without adaptive execution: it plans all of a query at once.
    *
    * @param broadcastBytes the minimum limit for tables that are broadcast in a join, unless the session
    *                       forbids it
    */
  def planningSession(session: SparkSession, broadcastBytes: Long): SparkSession = {
    val copy = session.cloneSession()
    copy.conf.set(SQLConf.ADAPTIVE_EXECUTION_ENABLED.key, "false")
    val own = session.sessionState.conf.autoBroadcastJoinThreshold
    if (own >= 0)
      copy.conf.set(SQLConf.AUTO_BROADCASTJOIN_THRESHOLD.key, Math.max(own, broadcastBytes).toString)
    copy
  }

  def executedPlan(session: SparkSession, plan: LogicalPlan): SparkPlan =
    session.withActive(session.sessionState.executePlan(plan).executedPlan)

  /** The value that is set for a key in the session. */
  def setting(session: SparkSession, key: String): Option[String] =
    Option(session.sessionState.conf.getConfString(key, null))

  /** The keys that are set in the session. */
  def settingKeys(session: SparkSession): Iterable[String] = session.sessionState.conf.getAllConfs.keys

  /** Up to this size, Spark broadcasts a table in a join of this thread's active session; negative: never. */
  def broadcastBytes: Long = SQLConf.get.autoBroadcastJoinThreshold

  /** The value that is set for a key in this thread's active session: a query's own, while it is planned. */
  def activeSetting(key: String): Option[String] = Option(SQLConf.get.getConfString(key, null))

  /** Broadcasts the Hadoop configuration, with the session's settings in it. */
  def broadcastHadoopConf(session: SparkSession): Broadcast[SerializableConfiguration] =
    SerializableConfiguration.broadcast(session.sparkContext, session.sessionState.newHadoopConf())

  /** @param metric the value of one of Spark's standard metrics of a stateful operator */
  def stateOperatorProgress(
      name: String,
      metric: String => Long,
      partitions: Int,
      custom: java.util.Map[String, java.lang.Long]
  ): StateOperatorProgress =
    new StateOperatorProgress(
      operatorName = name,
      numRowsTotal = metric("numTotalStateRows"),
      numRowsUpdated = metric("numUpdatedStateRows"),
      allUpdatesTimeMs = metric("allUpdatesTimeMs"),
      numRowsRemoved = metric("numRemovedStateRows"),
      allRemovalsTimeMs = metric("allRemovalsTimeMs"),
      commitTimeMs = metric("commitTimeMs"),
      memoryUsedBytes = metric("stateMemory"),
      numRowsDroppedByWatermark = metric("numRowsDroppedByWatermark"),
      numShufflePartitions = partitions.toLong,
      numStateStoreInstances = metric("numStateStoreInstances"),
      customMetrics = custom
    )
}

/** Rows that Python has pickled, as PySpark sends those of a DataFrame that is made of a list. */
object PythonRows {

  /** @param pickled a list of tuples, whose values `StructType.toInternal` has made */
  def read(pickled: Array[Byte], schema: StructType): Seq[UnsafeRow] = {
    SerDeUtil.initialize()
    EvaluatePython.registerPicklers()
    val converted = EvaluatePython.makeFromJava(schema)
    val projection = UnsafeProjection.create(schema)
    val rows = new Unpickler().loads(pickled).asInstanceOf[util.List[Object]].asScala.toSeq
    rows.map(row => projection(converted(row).asInstanceOf[InternalRow]).copy())
  }
}
