package io.tailrace.driver

import java.util.Collections
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean

import scala.annotation.tailrec
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession, StreamingBatch, StreamingPlan, StreamingRun}
import org.apache.spark.util.SerializableConfiguration

/** State that the driver keeps for an operator from one micro-batch to the next, as the code that uses it declares it. A plan
  * can't keep it, because Spark makes a new plan for each batch. [[DriverRuns]] has the states of all runs.
  *
  * @param close is called with a state when its run has ended
  */
private[tailrace] final class RunState[T](close: T => Unit = (_: T) => ()) {
  import DriverRuns.Opened

  /** The state of an operator in the run that this thread plans or executes. */
  def of(session: SparkSession, name: String)(open: => T): T =
    of(session, StreamingRun.current(session).runId, name)(open)

  /** @param open makes the state when the run has none of this name */
  def of(session: SparkSession, runId: String, name: String)(open: => T): T =
    // Outside of the map: `open` may request state of its own.
    DriverRuns.of(session, runId)(DriverRuns.Key(this, name), new Opened[T](close)).state(open)

  /** The state of an operator in a run, if it has been made. */
  def find(runId: String, name: String): Option[T] =
    DriverRuns.find[T](runId, DriverRuns.Key(this, name)).flatMap(_.made)

  private[driver] def size: Int = DriverRuns.count(_ eq this)
}

/** What the driver keeps for the runs of queries. A run is one start of a query: a query that starts again reads its
  * checkpoint.
  *
  * {{{
  *   a run's first state is asked for    its entry begins
  *   an operator asks for a state        the state begins, once for each name
  *   Spark says that the run has ended   all states of the run are closed together, and its entry is dropped
  *   another run begins                  so are those of runs that have ended unnoticed
  * }}}
  *
  * Without that, a driver that runs thousands of short queries would grow.
  *
  * {{{
  *   declared in                 what                                        closed by
  *   driver/RunState             the broadcast Hadoop configuration, whether the first batch has run
  *   join/StoredJoinExec         the checkpoint's settings, purged directories, input without output
  *   join/IdleTimeout            idle time of the query, notes of a batch that runs again
  *   label/LabelStreams          idle time of labels' streams
  *   sync/SyncRun                progress of the partitions
  *   watermark/SourceWatermark   progress of the hosts
  *   watermark/Reporter          the connection to the servers; its thread sees the end, and says so to them
  *   replay/FilterRun            marks                                       dropping them from MarkCache
  *   recursion/FixpointRDD       rows of an iteration that Spark has cached  releasing them
  *   recursion/RecursionExec     the oldest row in flight
  * }}}
  *
  * What a process keeps for all queries is in `io.tailrace.common.ExecutorProcess`.
  */
private[tailrace] object DriverRuns extends Logging {
  private[driver] final case class Key(of: RunState[_], name: String)

  private[driver] final class Opened[T](close: T => Unit) {
    private var opened: Option[T] = None

    def state(open: => T): T = synchronized {
      if (opened.isEmpty) opened = Some(open)
      opened.get
    }

    def made: Option[T] = synchronized(opened)

    def end(): Unit = synchronized(opened.foreach(close))
  }

  private final class Run(val session: SparkSession) {
    private val states = new ConcurrentHashMap[Key, Opened[_]]
    private var hasEnded = false

    def find(key: Key): Option[Opened[_]] = Option(states.get(key))
    def keys: Seq[Key] = states.keySet.asScala.toSeq

    /** None: the run has been dropped in the meantime. */
    def getOrAdd(key: Key, opened: Opened[_]): Option[Opened[_]] =
      synchronized(Option.when(!hasEnded)(states.computeIfAbsent(key, _ => opened)))

    def end(): Unit = {
      synchronized { hasEnded = true }
      // The entry is gone: one that fails must not leave the others open.
      states.forEach { (key, state) =>
        try state.end()
        catch {
          case NonFatal(e) => logWarning(s"what ${key.name} has kept of an ended query wasn't closed", e)
        }
      }
    }
  }

  private val runs = new ConcurrentHashMap[String, Run]
  private val watched = Collections.synchronizedSet(
    Collections.newSetFromMap(new java.util.WeakHashMap[SparkContext, java.lang.Boolean])
  )

  /** The number of states, of all operators and runs. */
  def states: Int = count(_ => true)

  private[driver] def count(isCounted: RunState[_] => Boolean): Int =
    runs.values.asScala.map(_.keys.count(key => isCounted(key.of))).sum

  private[driver] def find[T](runId: String, key: Key): Option[Opened[T]] =
    Option(runs.get(runId)).flatMap(_.find(key)).map(_.asInstanceOf[Opened[T]])

  private[driver] def of[T](session: SparkSession, runId: String)(key: Key, opened: Opened[T]): Opened[T] =
    find[T](runId, key).getOrElse {
      watch(session.sparkContext)
      dropEnded()
      add(session, runId, key, opened).asInstanceOf[Opened[T]]
    }

  @tailrec
  private def add(session: SparkSession, runId: String, key: Key, opened: Opened[_]): Opened[_] =
    runs.computeIfAbsent(runId, _ => new Run(session)).getOrAdd(key, opened) match {
      case Some(added) => added
      case None => add(session, runId, key, opened)
    }

  private def drop(hasEnded: (String, SparkSession) => Boolean): Unit = runs.forEach { (runId, run) =>
    if (hasEnded(runId, run.session) && runs.remove(runId, run)) run.end()
  }

  /** The event of an end may be lost in a full queue, or come before a thread asks for the run's state. */
  private def dropEnded(): Unit = {
    val running = mutable.Map.empty[SparkSession, String => Boolean]
    def runsOf(session: SparkSession) = running.getOrElseUpdate(session, StreamingRun.activeIds(session))
    drop((runId, session) => !runsOf(session)(runId))
  }

  private def watch(context: SparkContext): Unit =
    if (watched.add(context)) context.addSparkListener(EndOfRuns)

  /** Spark posts the events of all sessions' queries to the context's listeners, too. */
  private object EndOfRuns extends SparkListener {
    override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
      case end: QueryTerminatedEvent => drop((runId, _) => runId == end.runId.toString)
      case _ =>
    }
  }

  private val hadoopConfs = new RunState[Broadcast[SerializableConfiguration]]

  /** The Hadoop configuration of the run that this thread plans or executes, with its session's settings.
    * They are fixed when the query starts, so one broadcast a run is enough.
    */
  def hadoopConf(session: SparkSession): Broadcast[SerializableConfiguration] =
    hadoopConfs.of(session, "hadoopConf")(SparkPlans.broadcastHadoopConf(session))
}

/** Keeps the driver's state of an operator for each micro-batch of a run, one batch after the other.
  *
  * {{{
  *   at(7): begin ── tasks of batch 7 ── end(7): fold ── commit log 7 ── at(8): begin ── ...
  * }}}
  *
  * A batch begins once, though Spark plans an operator twice where a DataFrame is used twice. It is folded
  * once, though Spark may ask for its end several times. Not for several threads.
  *
  * @param begin makes the state of a batch, out of its number and the state of the batch before, if any
  */
private[tailrace] final class BatchSequence[B](begin: (Long, Option[B]) => B) {
  private var number = -1L
  private var gathered = Option.empty[B]
  private var folded = -1L

  /** The state of a batch. The batch begins if it isn't the current one. */
  def at(batch: Long): B = of(batch).getOrElse {
    val begun = begin(batch, gathered)
    gathered = Some(begun)
    number = batch
    begun
  }

  /** The state of a batch if it is the current one. */
  def of(batch: Long): Option[B] = gathered.filter(_ => batch == number)

  /** The state of the last batch that has begun. */
  def last: Option[B] = gathered

  /** True if no batch has begun that isn't folded. */
  def isBetween: Boolean = folded == number

  /** Folds a batch whose tasks have ended, once. A fold that fails runs again. */
  def end(batch: Long)(fold: B => Unit): Unit = {
    val ending = at(batch)
    if (folded != batch) {
      fold(ending)
      folded = batch
    }
  }
}

/** A micro-batch whose tasks have not run, because its sink has the batch already.
  *
  * The results of tasks are written into the checkpoint when the batch ends, maybe after the sink has
  * committed it. If the process is killed in between, the batch runs again, and the sink asks for none of its
  * rows: so do Spark's file sink, Delta Lake's sink, and each function of `foreachBatch` that compares batch
  * numbers. Without the tasks the driver would forget the partitions and hosts whose first rows are in the
  * batch.
  *
  * {{{
  *   12:00:00   batch 7: tasks ── sink has it ── killed before 7.progress and commit log 7
  *   12:01:00   batch 7: sink has it already ── we run the tasks ── 7.progress ── commit log 7
  *   12:01:10   batch 8: a sink that doesn't ask for its rows loses them. Spark refuses that
  * }}}
  *
  * Only the first batch of a run can be a batch that runs again.
  */
private[tailrace] object SkippedBatch extends Logging {

  /** A local property of tasks that run without the sink. */
  val Property: String = "tailrace.batchSkipped"

  private val starts = new RunState[AtomicBoolean]

  /** Runs the tasks of this thread's batch without its sink, which has the rows of an earlier run of it. */
  def runThrough(session: SparkSession): Unit = {
    session.sparkContext.setLocalProperty(Property, StreamingBatch.current(session).batchId.toString)
    try StreamingBatch.runThrough(session)
    finally session.sparkContext.setLocalProperty(Property, null)
  }

  /** Call it in the query's thread when the sink is done with a batch, before the results of tasks are used.
    */
  def runIfSkipped(session: SparkSession): Unit = {
    val batch = StreamingBatch.current(session)
    val isFirst = starts.of(session, "first batch")(new AtomicBoolean(true))
    if (isFirst.getAndSet(false)) {
      val running = StreamingBatch.running(session)
      val withoutTasks =
        StreamingPlan.nodes(running.plan).collect { case node: TellsDriver if !node.hasTold => node }
      if (running.sinkMaySkip && withoutTasks.nonEmpty) {
        logWarning(
          s"TAILRACE_BATCH_SKIPPED: the sink has not asked for all rows of batch ${batch.batchId}, the " +
            "first batch of this run: it has them from an earlier run. Tailrace runs the tasks without the " +
            s"sink, for ${withoutTasks.map(_.nodeName).distinct.mkString(", ")}"
        )
        runThrough(session)
      }
    }
  }
}
