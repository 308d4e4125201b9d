package io.tailrace.connect

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

/** Objects of the server that a client calls, by their names: the streams and queries of its tests. Each belongs to the
  * one that has given it, and all are dropped with the first one's `close`.
  *
  * {{{
  *   testStreams        -> 1
  *   invoke 1 query     -> 2, of 1
  *   invoke 2 rowsAfter -> 3, of 2
  *   invoke 1 close     1, 2, 3 are gone
  * }}}
  */
private[connect] object ConnectObjects {
  private final case class Held(value: AnyRef, owner: Option[String])

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
    val found =
      value.getClass.getMethods.find(m => m.getName == method && m.getParameterCount == arguments.size)
    def missing = new NoSuchMethodException(s"${value.getClass.getName}.$method, ${arguments.size} arguments")
    val result = ConnectMethods.invoke(value, found.getOrElse(throw missing), arguments)
    if (method == "close") drop(name)
    result
  }

  private def drop(name: String): Unit = {
    held.remove(name)
    held.asScala.collect { case (other, Held(_, Some(`name`))) => other }.foreach(drop)
  }
}
