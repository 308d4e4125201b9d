package io.tailrace.driver

import java.util.Collections
import java.util.concurrent.{ConcurrentHashMap, CopyOnWriteArrayList}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.apache.spark.sql.tailrace.{SparkPlans, StreamingBatch, StreamingRun}
import org.apache.spark.util.SerializableConfiguration

/** State that the driver keeps for an operator from one micro-batch to the next. Spark makes a new plan for
  * each batch, so a plan can't keep it.
  *
  * State belongs to one run, which is one start of a query: a query that starts again reads its checkpoint.
  * It is dropped when the run ends, so a driver that runs thousands of short queries doesn't grow.
  *
  * @param close is called with state that is dropped
  */
private[tailrace] final class RunState[T](close: T => Unit = (_: T) => ()) {
  import RunState._

  private val byRun = new ConcurrentHashMap[Key, Kept[T]]
  all.add(this)

  /** The state of an operator in the run that this thread plans or executes. */
  def of(session: SparkSession, name: String)(open: => T): T =
    of(session, StreamingRun.current(session).runId, name)(open)

  /** @param open makes the state when the run has none of this name */
  def of(session: SparkSession, runId: String, name: String)(open: => T): T = {
    val key = Key(runId, name)
    val kept = Option(byRun.get(key)).getOrElse {
      watch(session.sparkContext)
      dropEnded()
      byRun.computeIfAbsent(key, _ => new Kept[T](session))
    }
    // Behind the map: what is opened may ask for state of its own, which drops what has ended from all maps.
    kept.state(open)
  }

  private[driver] def size: Int = byRun.size

  private def drop(hasEnded: (String, SparkSession) => Boolean): Unit = byRun.forEach { (key, kept) =>
    if (hasEnded(key.runId, kept.session) && byRun.remove(key, kept)) kept.close(close)
  }
}

private[tailrace] object RunState {
  private final case class Key(runId: String, name: String)

  private final class Kept[T](val session: SparkSession) {
    private var opened: Option[T] = None

    def state(open: => T): T = synchronized {
      opened.getOrElse {
        val state = open
        opened = Some(state)
        state
      }
    }

    def close(close: T => Unit): Unit = synchronized(opened.foreach(close))
  }

  private val all = new CopyOnWriteArrayList[RunState[_]]
  private val watched =
    Collections.synchronizedSet(
      Collections.newSetFromMap(new java.util.WeakHashMap[SparkContext, java.lang.Boolean])
    )

  /** The number of states, of all operators and runs. */
  private[tailrace] def kept: Int = all.asScala.map(_.size).sum

  private def dropFromAll(hasEnded: (String, SparkSession) => Boolean): Unit = all.forEach(_.drop(hasEnded))

  /** Spark drops events when its queue is full, and a thread may ask for state just after its run has ended. */
  private def dropEnded(): Unit = {
    val running = mutable.Map.empty[SparkSession, String => Boolean]
    dropFromAll((runId, session) =>
      !running.getOrElseUpdate(session, StreamingBatch.activeRuns(session))(runId)
    )
  }

  private def watch(context: SparkContext): Unit =
    if (watched.add(context)) context.addSparkListener(EndOfRuns)

  /** Spark posts the events of all sessions' queries to the context's listeners, too. */
  private object EndOfRuns extends SparkListener {
    override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
      case end: QueryTerminatedEvent => dropFromAll((runId, _) => runId == end.runId.toString)
      case _ =>
    }
  }

  private val hadoopConfs = new RunState[Broadcast[SerializableConfiguration]]

  /** The Hadoop configuration of the run that this thread plans or executes, with the settings of its
    * session. They are fixed when the query starts, so the configuration is broadcast once a run, not once a
    * batch.
    */
  def hadoopConf(session: SparkSession): Broadcast[SerializableConfiguration] =
    hadoopConfs.of(session, "hadoopConf")(SparkPlans.broadcastHadoopConf(session))
}
