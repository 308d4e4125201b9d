package io.tailrace.join

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.tailrace.SparkSession

import io.tailrace.explain.JoinFacts
import io.tailrace.state.{RowMemory, StoreKind, TailraceStateStore}

/** One kind of streaming join: its names, its pinned settings, and its work in a micro-batch.
  * `StoredJoinExec` is the operator around it, the same for all kinds.
  */
trait StoredJoin {

  /** The operator's name in `explain` and in Spark's UI. */
  def nodeName: String

  /** The operator's name in the query's progress and in the checkpoint's metadata. It never changes. */
  def operatorName: String
  def columns: JoinColumns

  /** As Spark's own joins name it: rows of which side are emitted without a partner. */
  def joinType: JoinType

  /** A value of left rows that decides their partition beside the key; null for each row whose key can match.
    *
    * Spark's hash leaves out nulls. So rows that can match go to the partition of their key, as if there were
    * no such value, and checkpoints of earlier versions keep working.
    */
  def leftSpread: Option[Expression] = None

  /** A description for people. @param keys names of columns */
  def words(keys: String): String

  /** The operator's line in `explain`. */
  def explain: String

  /** The settings that a checkpoint of this join pins.
    *
    * @param columns this join's, with the pairs of keys in the order that the checkpoint has them in
    */
  def pinned(columns: JoinColumns): PinnedSettings

  /** Names of the columns that the state keeps of emitted left rows, for their amendments; none: no others than the keys
    * and the time, which never change.
    */
  def keptColumns: Option[Set[String]] = None

  /** The argument with a table that the first micro-batch reads into the state. Until it is committed, a query that
    * resumes has to have it.
    */
  def firstInput: Option[String] = None

  /** The metrics that only this kind of join has. */
  def createMetrics(context: SparkContext): Map[String, SQLMetric]

  def onDriver(exec: PlannedJoin): StoredJoinDriver
}

/** The operator, planned for a micro-batch, as its kind of join sees it on the driver. */
trait PlannedJoin {
  def session: SparkSession
  def metrics: Map[String, SQLMetric]

  /** The operator in Spark's plan. */
  def physicalPlan: SparkPlan

  /** Its name in notes that outlive the batch. */
  def workName: String

  def batchId: Long
  def partitions: Int
  def eventTimeWatermarkForEviction: Option[Long]
  def eventTimeWatermarkForLateEvents: Option[Long]

  /** The settings that the checkpoint pins. */
  def checkpointSettings: Map[String, String]

  /** The windows that the join has had. */
  def grown: Seq[Growth]

  /** The number of partitions that decides when rows leave. */
  def partitionsOfRelease: Int

  /** A setting of the session, as [[io.tailrace.common.TailraceConf]] reads it. */
  def setting(key: String): Option[String]
}

/** The driver's part of a join in one micro-batch, in the thread of the query. */
trait StoredJoinDriver {

  /** The executors' part. Spark asks for it once, before the tasks run. */
  def tasks: StoredJoinTasks

  /** True if the next micro-batch is worth running even if it has no data.
    *
    * @param watermarkMs of the next micro-batch
    */
  def needsAnother(watermarkMs: Long): Boolean

  /** The watermark of the rows that are emitted: no later row is behind it. */
  def outputWatermark(inputWatermarkMs: Long): Option[Long]

  /** See [[io.tailrace.driver.TellsDriver]]. */
  def hasTold: Boolean

  /** See [[io.tailrace.driver.HeldWork]]. */
  def oldestWaiting: Option[Map[Int, Option[Long]]]

  /** The reasons why its rows are buffered, after the tasks of the batch. */
  def waits: JoinFacts
}

/** The executors' part of a join in one micro-batch. It is sent to them with the tasks. */
trait StoredJoinTasks extends Serializable {
  def task(context: StoredJoinContext): StoredJoinTask

  /** Runs after the commit. */
  def report(store: TailraceStateStore, metric: String => SQLMetric): Unit

  /** The stores whose bytes count as those of left rows, of right rows and of matches. */
  def leftKinds: Seq[StoreKind]
  def rightKind: StoreKind
  def joinedKinds: Seq[StoreKind]
}

/** The values that the task of any join works with.
  *
  * @param bufferBytes see `spark.tailrace.state.batchBufferBytes`
  */
final case class StoredJoinContext(
    columns: JoinColumns,
    store: TailraceStateStore,
    memory: RowMemory,
    bufferBytes: Long,
    metric: String => SQLMetric
)

/** A join of one partition in one micro-batch, up to the commit. Take all of `output`, which reads both
  * inputs first, then call `expire`. Call `close` whatever happens.
  */
trait StoredJoinTask extends AutoCloseable {

  /** All rows that are emitted in this micro-batch. Each is valid until the next one. It is called once. */
  def output(left: Iterator[InternalRow], right: Iterator[InternalRow]): Iterator[InternalRow]

  def rowsKept: Long

  /** Nanoseconds spent on reading the inputs and writing them into the state. */
  def updateNanos: Long

  /** Nanoseconds spent on finding the rows that leave the state, and their matches. */
  def expiryNanos: Long

  /** Removes the rows that have left. @return how many */
  def expire(): Long
}

/** The metrics of any streaming join, by their names in a query's progress. The texts are for Spark's UI. */
object JoinMetrics {
  val NullKeyRightRows = "nullKeyRightRows"
  val NullKeyLeftRows = "nullKeyLeftRows"
  val LostVersions = "lostVersions"
  val LoadedBytes = "loadedBytes"
  val ReplacedCopies = "replacedCopies"
  val LoadTimeMs = "loadTimeMs"
  val StateFiles = "stateFiles"
  val LeftStoreBytes = "leftStoreBytes"
  val RightStoreBytes = "rightStoreBytes"
  val StateFileBytes = "stateFileBytes"

  /** Each kind of join keeps other data about joined rows, and gives this metric its own text. */
  val JoinedStoreBytes = "joinedStoreBytes"

  private val counts = Seq(
    NullKeyRightRows -> "right rows dropped for a null key or time",
    NullKeyLeftRows -> "left rows dropped for a null key or time, by an inner join",
    LostVersions -> "versions of the state that were lost at a restart, over all partitions",
    StateFiles -> "files of the state",
    ReplacedCopies -> "damaged local files of the state, made again from the checkpoint"
  )
  private val sizes = Seq(
    LeftStoreBytes -> "bytes of left rows in the state",
    RightStoreBytes -> "bytes of right rows in the state",
    StateFileBytes -> "bytes of the state's files",
    LoadedBytes -> "bytes of the state that were copied from the checkpoint"
  )
  private val times = Seq(LoadTimeMs -> "time to copy the state from the checkpoint")

  val names: Seq[String] = (counts ++ sizes ++ times).map(_._1)

  /** The number of rows a batch has brought: those that were kept, and those that weren't. */
  def rowsRead(metrics: Map[String, SQLMetric]): Long =
    Seq("numUpdatedStateRows", "numRowsDroppedByWatermark", NullKeyRightRows, NullKeyLeftRows)
      .map(metrics(_).value)
      .sum

  /** These metrics, and those of one kind of join.
    *
    * @param moreCounts names with the texts of Spark's UI
    * @param moreSizes  the same, for metrics in bytes
    */
  def create(
      context: SparkContext,
      moreCounts: Seq[(String, String)],
      moreSizes: Seq[(String, String)]
  ): Map[String, SQLMetric] =
    (counts ++ moreCounts).map { case (name, text) =>
      name -> SQLMetrics.createMetric(context, text)
    }.toMap ++
      (sizes ++ moreSizes).map { case (name, text) => name -> SQLMetrics.createSizeMetric(context, text) } ++
      times.map { case (name, text) => name -> SQLMetrics.createTimingMetric(context, text) }
}
