package io.tailrace.join

import java.io.{EOFException, IOException, UTFDataFormatException}
import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.tailrace._
import org.apache.spark.util.{CollectionAccumulator, SerializableConfiguration}
import org.apache.spark.{SparkConf, TaskContext}

import io.tailrace.common.{Errors, TailraceConf}
import io.tailrace.driver._
import io.tailrace.explain.{JoinFacts, LabelFacts, SyncFacts, WaitText, WatermarkText}
import io.tailrace.state.{BufferedRows, OwnStoreConf, RowMemory, StateLayout, TailraceStateStore}

/** The operator of any streaming join of ours in Spark's plan. [[StoredJoin]] says what one kind does.
  *
  * It keeps the parts of Spark's own join that Spark's rules hand to it (see [[SparkJoinExec]]), and overrides the others.
  */
final class StoredJoinExec(parts: JoinParts)(val join: StoredJoin, override val output: Seq[Attribute])
    extends SparkJoinExec(parts)(SparkJoinExec.forParent)
    with PlannedJoin
    with HeldWork
    with TellsDriver {
  override protected def made(parts: JoinParts): StoredJoinExec = new StoredJoinExec(parts)(join, output)

  @transient private lazy val driver: StoredJoinDriver = join.onDriver(this)

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    driver.needsAnother(newInputWatermark)
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    driver.outputWatermark(inputWatermarkMs)
  override def hasTold: Boolean = driver.hasTold &&
    (!hasIds || checkpointInfoAccumulator.value.size >= getStateInfo.numPartitions)

  /** In checkpoint format 2, Spark asks for the ids of the new version, and ends the query if there are none. */
  override def getStateStoreCheckpointInfo(): Array[StatefulOpStateStoreCheckpointInfo] = {
    SkippedBatch.runIfSkipped(session)
    super.getStateStoreCheckpointInfo()
  }

  private def hasIds: Boolean = conf.stateStoreCheckpointFormatVersion >= 2

  override def oldestWaiting: Option[Map[Int, Option[Long]]] = driver.oldestWaiting

  // Spark compares its own parameters only. They don't tell joins of one input with other settings apart.
  override def equals(other: Any): Boolean = other match {
    case that: StoredJoinExec => join == that.join && super.equals(that)
    case _ => false
  }

  override def nodeName: String = join.nodeName
  override def shortName: String = join.operatorName
  override def simpleString(maxFields: Int): String = join.explain

  override protected def bindCheckpoint(
      hadoopConf: Configuration,
      batchId: Long
  ): StateSchemaValidationResult = {
    bound {
      if (!sparkContext.isLocal)
        ClusterSettings.thatMovePartitions(sparkContext.getConf).foreach { setting =>
          logWarning(s"TAILRACE_STATE_MOVES: $workName keeps its state on its executors, and $setting")
        }
      val sources = NamedSources.of(session, directory.getParent.getParent, hadoopConf, batchId)
      val CheckpointBinding(found, told) =
        CheckpointBinding.of(directory, hadoopConf, batchId, join, sources)
      if (told.nonEmpty)
        logWarning(
          s"TAILRACE_STATE_COLUMNS: the columns of $workName have changed. In rows that wait ${told.mkString(", ")}"
        )
      val ids = getStateInfo.stateStoreCkptIds.map(_.length)
      StoredJoinExec.Bound(found, found.layout(getStateInfo.numPartitions, directory, ids), batchId)
    }
    SchemaFile.validate(getStateInfo, hadoopConf, session)
  }

  /** Spark validates the checkpoint before it asks how rows have to be spread. The plan that `explain` shows has none. */
  override protected def keyOrder: Seq[Int] = {
    val found = StoredJoinExec.bound.find(getStateInfo.queryRunId.toString, workName)
    val ordered = found.fold(join.columns)(of => join.columns.withKeysAsIn(of.checkpoint.settings))
    ordered.leftKeys.zip(ordered.rightKeys).map(join.columns.leftKeys.zip(join.columns.rightKeys).indexOf(_))
  }

  override protected def leftSpread: Option[Expression] = join.leftSpread

  override def workName: String = s"$shortName-$operatorId"

  override def words: String = join.words(keyWords)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "numRowsDroppedByWatermark" ->
      SQLMetrics.createMetric(sparkContext, "number of rows which are dropped by watermark"),
    "numTotalStateRows" -> SQLMetrics.createMetric(sparkContext, "number of total state rows"),
    "numUpdatedStateRows" -> SQLMetrics.createMetric(sparkContext, "number of updated state rows"),
    "allUpdatesTimeMs" -> SQLMetrics.createTimingMetric(sparkContext, "time to update"),
    "numRemovedStateRows" -> SQLMetrics.createMetric(sparkContext, "number of removed state rows"),
    "allRemovalsTimeMs" -> SQLMetrics.createTimingMetric(sparkContext, "time to remove"),
    "commitTimeMs" -> SQLMetrics.createTimingMetric(sparkContext, "time to commit changes"),
    "stateMemory" -> SQLMetrics.createSizeMetric(sparkContext, "most memory that the rows of a batch took"),
    "numStateStoreInstances" -> SQLMetrics.createMetric(sparkContext, "number of state store instances")
  ) ++ joinMetrics

  private lazy val joinMetrics: Map[String, SQLMetric] = join.createMetrics(sparkContext)

  /** Spark asks at the end of a batch, in the query's thread. */
  override def getProgress(): StateOperatorProgress = {
    NoOutputWarning.after(this, JoinMetrics.rowsRead(metrics) -> longMetric("numOutputRows").value)(
      driver.waits
    )
    val own = joinMetrics.map { case (name, metric) => name -> Long.box(metric.value) }.asJava
    SparkPlans
      .stateOperatorProgress(shortName, longMetric(_).value, getStateInfo.numPartitions, own)
  }

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // made on the driver, before the tasks refer to them
    deleteFormerState()
    val partition = new StoredJoinPartition(
      join.columns.withKeysAsIn(nowBound.checkpoint.settings),
      driver.tasks,
      getStateInfo,
      new OwnStoreConf(conf, nowBound.layout.store, nowBound.checkpoint.shapes),
      DriverRuns.hadoopConf(session),
      metrics,
      Option.when(hasIds)(checkpointInfoAccumulator),
      TailraceConf.BatchBufferBytes.read(setting)
    )
    zipped(partition)
  }

  override def physicalPlan: SparkPlan = this

  override def partitions: Int = getStateInfo.numPartitions

  override def checkpointSettings: Map[String, String] = nowBound.checkpoint.settings

  override def grown: Seq[Growth] = nowBound.checkpoint.grown

  override def partitionsOfRelease: Int = {
    val cutOff = nowBound.layout.cutOff.filter(_.batch == batchId)
    cutOff.fold(getStateInfo.numPartitions)(_.partitions)
  }

  override def batchId: Long = StreamingBatch.current(session).batchId

  /** Spark has validated the checkpoint before it asks for anything else. */
  private def nowBound: StoredJoinExec.Bound = bound {
    throw new IllegalStateException(s"$workName is asked for a batch before its checkpoint is validated")
  }

  private def bound(open: => StoredJoinExec.Bound): StoredJoinExec.Bound =
    StoredJoinExec.bound.of(session, getStateInfo.queryRunId.toString, workName)(open)

  /** The operator's, in the checkpoint. */
  private def directory = new Path(getStateInfo.checkpointLocation, getStateInfo.operatorId.toString)

  /** With the second batch of a run: the first one has completed. */
  private def deleteFormerState(): Unit = {
    val now = nowBound
    if (now.checkpoint.layouts.exists(_ != now.layout) && batchId > now.first)
      StoredJoinExec.cleaned.of(session, getStateInfo.queryRunId.toString, workName) {
        logInfo(s"$workName deletes the state of another number of partitions")
        val conf = session.sessionState.newHadoopConf()
        FormerLayouts.delete(directory, conf, now.checkpoint, now.layout)
      }
  }

  override def setting(key: String): Option[String] = SparkPlans.setting(session, key)
}

object StoredJoinExec {
  // Read once a run: Spark validates a checkpoint when it plans the first micro-batch of a run.
  private val bound = new RunState[Bound]
  private val cleaned = new RunState[Unit]

  /** @param first batch of the run */
  private final case class Bound(checkpoint: JoinCheckpoint, layout: StateLayout, first: Long)

  /** @param output the columns that are emitted
    * @param left   the plan of the left side, with the event time of the join as its only one
    */
  def apply(
      join: StoredJoin,
      output: Seq[Attribute],
      left: SparkPlan,
      right: SparkPlan
  ): StoredJoinExec = {
    val parts = JoinParts(
      join.columns.leftKeys,
      join.columns.rightKeys,
      join.joinType,
      SparkJoinExec.NoCondition,
      None,
      None,
      None,
      SparkJoinExec.NoPredicates,
      2,
      OneEventTimeExec.side(left, join.columns.leftTime),
      OneEventTimeExec.side(right, join.columns.rightTime),
      None
    )
    new StoredJoinExec(parts)(join, output)
  }
}

/** The join of one partition in one micro-batch: opens the store, runs the task, commits and reports.
  *
  * It is a function by inheritance. Spark would clean a lambda as a closure, and read the byte code of the
  * operator around it with each batch.
  *
  * @param info        says where the state is
  * @param bufferBytes see `spark.tailrace.state.batchBufferBytes`
  */
final class StoredJoinPartition(
    columns: JoinColumns,
    tasks: StoredJoinTasks,
    info: StatefulOperatorStateInfo,
    storeConf: StateStoreConf,
    hadoopConf: Broadcast[SerializableConfiguration],
    metrics: Map[String, SQLMetric],
    checkpointIds: Option[CollectionAccumulator[StatefulOpStateStoreCheckpointInfo]],
    bufferBytes: Long
) extends ((Int, Iterator[InternalRow], Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(
      partition: Int,
      left: Iterator[InternalRow],
      right: Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val context = TaskContext.get()
    val store = open(partition)
    // Listeners run in reverse order: the store is closed after the join that reads from it.
    context.addTaskCompletionListener[Unit](_ => store.abort())
    val memory = new RowMemory(SparkState.taskMemoryManager(context))
    val join = tasks.task(StoredJoinContext(columns, store, memory, bufferBytes, metrics))
    context.addTaskCompletionListener[Unit](_ => join.close())

    new OutputRows(
      join.output(left, right),
      count => {
        metrics("numOutputRows") += count
        finish(join, store, memory)
      }
    )
  }

  private def open(partition: Int): TailraceStateStore = {
    import BufferedRows.{KeySchema, ValueSchema}
    SparkStores
      .open(info, partition, KeySchema, ValueSchema, storeConf, hadoopConf.value.value)
      .asInstanceOf[TailraceStateStore]
  }

  private def finish(join: StoredJoinTask, store: TailraceStateStore, memory: RowMemory): Unit = {
    metrics("allRemovalsTimeMs") += NANOSECONDS.toMillis(join.expiryNanos) +
      millis { metrics("numRemovedStateRows") += join.expire() }
    // A synced join writes the rows that stay when it removes those that have left.
    metrics("numUpdatedStateRows") += join.rowsKept
    metrics("allUpdatesTimeMs") += NANOSECONDS.toMillis(join.updateNanos)
    metrics("stateMemory") += memory.peakBytes
    // Closes cursors and buffers before the commit, which may delete the files that they read.
    join.close()
    metrics("commitTimeMs") += millis(store.commit())
    val now = store.metrics
    metrics("numTotalStateRows") += now.numKeys
    metrics(JoinMetrics.StateFileBytes) += now.memoryUsedBytes
    metrics("numStateStoreInstances") += 1
    tasks.report(store, metrics)
    metrics(JoinMetrics.StateFiles) += store.files
    metrics(JoinMetrics.LostVersions) += store.load.lostVersions
    metrics(JoinMetrics.ReplacedCopies) += store.takeReplacedCopies()
    metrics(JoinMetrics.LoadedBytes) += store.load.bytes
    metrics(JoinMetrics.LoadTimeMs) += store.load.millis
    metrics(JoinMetrics.LeftStoreBytes) += tasks.leftKinds.map(store.bytesOf).sum
    metrics(JoinMetrics.RightStoreBytes) += store.bytesOf(tasks.rightKind)
    tasks.joinedKinds.foreach(kind => metrics(JoinMetrics.JoinedStoreBytes) += store.bytesOf(kind))
    checkpointIds.foreach(_.add(SparkStores.ids(store)))
  }

  private def millis(body: => Unit): Long = {
    val started = System.nanoTime
    body
    NANOSECONDS.toMillis(System.nanoTime - started)
  }
}

/** Settings of Spark with which partitions wander between executors. Each one that comes to another executor copies its state
  * from the checkpoint there. The output stays right, so a query is warned of them, and not refused.
  */
private[join] object ClusterSettings {

  /** @return for each of them its name, its value, what it does, and what to set */
  def thatMovePartitions(conf: SparkConf): Seq[String] = {
    def isOn(key: String) = conf.getBoolean(key, defaultValue = false)
    val speculation = Option.when(isOn("spark.speculation")) {
      "spark.speculation is true: a second copy of a slow task runs on another executor, and reads its partition's state " +
        "there. Set it to false"
    }
    val allocation = Option.when(isOn("spark.dynamicAllocation.enabled")) {
      "spark.dynamicAllocation.enabled is true: an executor that goes takes the local state of its partitions with it. Set " +
        "it to false for a query that always runs"
    }
    val wait = "spark.locality.wait"
    val locality = Option.when(conf.getTimeAsMs(s"$wait.process", conf.get(wait, "3s")) == 0) {
      s"$wait is 0: a task runs wherever a core is free, and not where its partition's state is. Set it to 3s or more"
    }
    Seq(speculation, allocation, locality).flatten
  }
}

/** Spark's schema file of an operator's state. Spark reads it, and its errors don't name the file. */
private[join] object SchemaFile {

  /** Spark's check of the schema of a store: the same for all joins, since Spark sees rows as bytes. */
  def validate(
      state: StatefulOperatorStateInfo,
      conf: Configuration,
      session: SparkSession
  ): StateSchemaValidationResult = naming(state) {
    SparkStores.checkSchema(state, conf, session, BufferedRows.KeySchema, BufferedRows.ValueSchema)
  }

  /** Runs Spark's check. The schema is the same for all of one state format: a file that differs is damaged,
    * or of another operator.
    */
  private def naming[T](state: StatefulOperatorStateInfo)(check: => T): T =
    try check
    catch {
      case e @ (_: EOFException | _: UTFDataFormatException) => throw corrupt(state, "it ends too early", e)
      case e: IOException => throw Errors.stateFileUnavailable(file(state), "read or written", e)
      case NonFatal(e) => throw corrupt(state, "it isn't the schema of this operator's state", e)
    }

  private def corrupt(state: StatefulOperatorStateInfo, reason: String, cause: Throwable): Throwable =
    Errors.stateFileCorrupt(file(state), reason, cause)

  private def file(state: StatefulOperatorStateInfo): String = SparkStores.schemaFile(state).toString
}

/** Warns, once until a row is emitted, of a join that has had input for a while and has given nothing, if it is
  * known why. The text is that of `tailrace why`.
  */
private[join] object NoOutputWarning extends Logging {
  private val joins = new RunState[NoOutput]

  /** A batch of a join has ended, in the thread of its query.
    *
    * @param rows  that it has read, and that it has given
    * @param waits the reasons why its rows are buffered
    */
  def after(exec: StoredJoinExec, rows: (Long, Long))(waits: => JoinFacts): Unit = {
    val session: SparkSession = exec.session
    val (in, out) = rows
    val noted = joins.of(session, exec.workName) {
      new NoOutput(TailraceConf.NoOutputAfter.read(exec.setting))
    }
    val nowMs = StreamingRun.current(session).clock.ms
    noted.after(exec.getStateInfo.storeVersion, nowMs, in > 0, out > 0).foreach { forMs =>
      val facts = waits
      if (facts.isReason) {
        noted.told()
        val watermark = facts match {
          case _: LabelFacts =>
            WatermarkText.of(
              QueryWatermark.facts(session, exec.eventTimeWatermarkForEviction.getOrElse(0L))
            )
          case _: SyncFacts => Nil
        }
        logWarning(WaitText.noOutput(exec.workName, forMs, watermark, facts))
      }
    }
  }
}

/** Looks at the rows of a task. */
trait RowObserver {
  def see(row: InternalRow): Unit
}

/** The rows of a task as they are emitted.
  *
  * The operator above may look at each of them without an iterator of its own: its calls can't be inlined where
  * a JVM has had several kinds of iterators.
  *
  * @param end called once, with the number of rows, when there are no more
  */
final class OutputRows(rows: Iterator[InternalRow], end: Long => Unit = _ => ())
    extends Iterator[InternalRow] {
  private var observer: RowObserver = _
  private var count = 0L
  private var hasEnded = false

  def observe(by: RowObserver): Unit = {
    require(observer == null, "two operators observe the same rows")
    observer = by
  }

  override def hasNext: Boolean = {
    val more = !hasEnded && rows.hasNext
    if (!more && !hasEnded) {
      hasEnded = true
      end(count)
    }
    more
  }

  override def next(): InternalRow = {
    val row = rows.next()
    count += 1
    if (observer != null) observer.see(row)
    row
  }
}
