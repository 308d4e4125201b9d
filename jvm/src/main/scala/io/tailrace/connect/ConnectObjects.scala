package io.tailrace.connect

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.connect.service.{
  SessionHolder,
  SessionKey,
  SparkListenerConnectSessionClosed => SessionClosed
}

import io.tailrace.testing.TestStreams

/** Objects of the server that a client calls, by their names: the streams and queries of its tests. Each belongs to
  * the one that has given it. All are dropped with the first one's `close`, and with their session.
  *
  * {{{
  *   testStreams        -> 1
  *   invoke 1 query     -> 2, of 1
  *   invoke 2 rowsAfter -> 3, of 2
  *   invoke 1 close     1, 2, 3 are gone
  * }}}
  */
private[connect] final class ConnectObjects {
  import ConnectObjects._

  private val held = new ConcurrentHashMap[String, Held]
  private val last = new AtomicLong

  /** @return its name */
  def hold(value: AnyRef, owner: Option[String]): String = {
    val name = last.incrementAndGet().toString
    held.put(name, Held(value, owner))
    name
  }

  def apply(name: String): AnyRef = Option(held.get(name)) match {
    case Some(found) => found.value
    case None =>
      throw new NoSuchElementException(s"no object $name: it is closed, or the server has started anew")
  }

  /** Calls a method of an object. */
  def invoke(name: String, method: String, arguments: Seq[AnyRef]): AnyRef = {
    val value = apply(name)
    val found = value.getClass.getMethods.find { m =>
      m.getName == method && m.getParameterCount == arguments.size && isOfTests(m.getDeclaringClass)
    }
    def missing = new NoSuchMethodException(s"${value.getClass.getName}.$method, ${arguments.size} arguments")
    val result = ConnectMethods.invoke(value, found.getOrElse(throw missing), arguments)
    if (method == "close") drop(name)
    result
  }

  private def drop(name: String): Unit = {
    held.remove(name)
    held.asScala.collect { case (other, Held(_, Some(`name`))) => other }.foreach(drop)
  }

  private def close(): Unit =
    held.values.asScala.map(_.value).foreach { case open: AutoCloseable => open.close(); case _ => }
}

private[connect] object ConnectObjects {
  private final case class Held(value: AnyRef, owner: Option[String])

  private val ofSessions = new ConcurrentHashMap[SessionKey, ConnectObjects]

  def of(session: SessionHolder): ConnectObjects = ofSessions.computeIfAbsent(
    session.key,
    key => {
      val context = session.session.sparkContext
      context.addSparkListener(new AtEnd(key, context))
      new ConnectObjects
    }
  )

  /** A client names the method. One that `Object` has would lead it by reflection to all classes of the server. */
  private def isOfTests(declaring: Class[_]): Boolean =
    declaring.getPackageName == classOf[TestStreams].getPackageName

  /** A client that is killed doesn't close its streams. Spark closes its session, an hour after its last call. */
  private final class AtEnd(key: SessionKey, context: SparkContext) extends SparkListener {
    override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
      case closed: SessionClosed if SessionKey(closed.userId, closed.sessionId) == key =>
        context.removeSparkListener(this)
        Option(ofSessions.remove(key)).foreach(_.close())
      case _ =>
    }
  }
}
