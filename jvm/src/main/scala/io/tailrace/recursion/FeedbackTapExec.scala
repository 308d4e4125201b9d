package io.tailrace.recursion

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.streaming.operators.stateful.WatermarkSupport
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.StreamingBatch
import org.apache.spark.sql.types.StructType

import io.tailrace.driver.{DriverWatermarkExec, HeldWork, RunState, TellsDriver}

/** Lets the results of op pass, and writes them for the next micro-batch, which gives them to op again.
  *
  * {{{
  *   input ──────┐
  *               ├─ op ─ FeedbackTap ──> results
  *   feedback ───┘            └──> <checkpoint>/tailrace-recursion/<name>/<batch>/, before the task ends
  *      └──────────────────────────── the next batch: FeedbackStream
  * }}}
  *
  * @param times  ordinals of the columns that watermarks are on
  * @param written what the rows are written as
  */
final case class FeedbackTapExec(
    settings: RecursionSettings,
    columns: RoundColumns,
    times: Seq[Int],
    written: StructType,
    child: SparkPlan
) extends UnaryExecNode
    with CountsHops
    with HeldWork
    with TellsDriver {
  override def output: Seq[Attribute] = child.output
  override def mode: RecursionMode = RecursionMode.Feedback
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val batch = StreamingBatch.current(session)
    val hadoopConf = RunState.hadoopConf(session)
    val directory = FeedbackLog.directory(batch.checkpointRoot, settings.name)
    val log = new FeedbackLog(directory, hadoopConf.value.value)
    val name = FeedbackName(
      log.nextRun(batch.batchId),
      UUID.randomUUID.toString.replace("-", ""),
      0,
      rows.getNumPartitions
    )
    // Nobody else would say that there is nothing.
    if (name.tasks == 0) log.writeEmpty(batch.batchId, name)
    val before = log.complete(batch.batchId)
    val oldest = new OldestTime(name.tasks)
    sparkContext.register(oldest)
    val run = FeedbackRun(
      directory.toString,
      hadoopConf,
      batch.batchId,
      name,
      written.json,
      RowsInFlight.of(session, settings.name).collect(batch.batchId, oldest),
      before,
      latest
    )
    val rules = new FixpointRules(settings, columns, addsDepth = false, conf.sessionLocalTimeZone, hopSink)
    rows.mapPartitionsWithIndex(new FeedbackTask(run, rules, columns, times))
  }

  /** The watermark, in milliseconds, at which operators of op with state will take a row for late that this batch feeds back:
    * the one that closes this batch. None if no operator would drop it.
    */
  private def latest: Option[Long] = {
    def isOnTheWay(operator: SparkPlan): Boolean = operator.exists {
      case own: DriverWatermarkExec => own.watermark == RecursionWatermark(settings.name)
      case _ => false
    }
    val watermarks = child.collect {
      case join: StreamingSymmetricHashJoinExec if isOnTheWay(join) => join.eventTimeWatermarkForEviction
      case operator: WatermarkSupport if isOnTheWay(operator) => operator.eventTimeWatermarkForEviction
    }
    watermarks.flatten.filter(_ > 0).maxOption
  }

  override def hasTold: Boolean =
    RowsInFlight.of(session, settings.name).isComplete(StreamingBatch.current(session).batchId)

  override def workName: String = s"tailraceRecursion-${settings.name}"

  /** None where rows have no event time. */
  override def oldestWaiting: Option[Map[Int, Option[Long]]] = Option.when(times.nonEmpty) {
    val batch = StreamingBatch.current(session).batchId
    Map(0 -> RowsInFlight.of(session, settings.name).oldestOf(batch))
  }

  override protected def stringArgs: Iterator[Any] = Iterator(s"name=${settings.name}", s"mode=${mode.name}")

  override protected def withNewChildInternal(newChild: SparkPlan): FeedbackTapExec = copy(child = newChild)
}
