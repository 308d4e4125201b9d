package io.tailrace.testkit

import java.io.IOException
import java.util.concurrent.ConcurrentSkipListMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.util.Random

/** An object store in the memory of this JVM, behind the file system `obj://bucket/` ([[ObjectStoreFileSystem]]). It has
  * objects by their keys and no directories. A PUT is atomic. There is no rename, but for clients of a store that has one.
  *
  * It logs each request, and behaves as it is told: slow, out of capacity, or with answers that get lost.
  *
  * {{{
  *   StateLog ──> file manager ──> ObjectStoreFileSystem ──HEAD, GET, PUT, LIST, COPY, DELETE──> ObjectStore
  *                                 (one call is several requests)                                 │
  *                                                                                     requests, in their order
  * }}}
  */
object ObjectStore {

  /** What a client asks for, as the bill of the store names it. */
  sealed abstract class Method(val text: String)
  case object Head extends Method("HEAD")
  case object Get extends Method("GET")
  case object Put extends Method("PUT")
  case object ListPage extends Method("LIST")
  case object Copy extends Method("COPY")
  case object Delete extends Method("DELETE")

  /** Of a store with directories: in one step. */
  case object Rename extends Method("RENAME")

  final case class Request(method: Method, key: String, bytes: Long) {
    override def toString: String = s"${method.text} $key${if (bytes > 0) s" ($bytes bytes)" else ""}"
  }

  /** @param latencyMs  median of a request's time, in milliseconds; 0 for none
    * @param sigma      of the logarithm of the times
    * @param bytesPerMs of one stream
    * @param ratePrefix requests that a prefix, a directory, takes in a second; more get the answer 503
    * @param lostAnswer share of the PUTs that are done but whose answer is lost
    * @param exclusive  whether a PUT can ask that there is no object of its key
    */
  final case class Behaviour(
      latencyMs: Double = 0,
      sigma: Double = 0.5,
      bytesPerMs: Double = Double.PositiveInfinity,
      ratePrefix: Int = Int.MaxValue,
      lostAnswer: Double = 0,
      exclusive: Boolean = true,
      seed: Long = 1
  )

  final class SlowDown(key: String) extends IOException(s"503 Slow Down: $key")
  final class AnswerLost(key: String) extends IOException(s"Connection reset by peer: $key")
  final class PreconditionFailed(key: String) extends IOException(s"412 Precondition Failed: $key")

  /** @param header user metadata: a name and its value */
  final case class Stored(bytes: Array[Byte], modified: Long, header: Option[(String, String)] = None)

  private val objects = new ConcurrentSkipListMap[String, Stored]
  private val log = new ArrayBuffer[Request]
  private val clock = new AtomicLong(System.currentTimeMillis)
  @volatile private var behaviour = Behaviour()
  private var random = new Random(1)
  private val rates = scala.collection.mutable.Map.empty[String, (Long, Int)]

  /** All requests since the last `clear`. */
  def requests: Seq[Request] = log.synchronized(log.toSeq)

  /** How many of each method, of the requests since the last `clear` whose key the condition holds for. */
  def counts(of: String => Boolean = _ => true): Map[Method, Int] =
    requests.filter(r => of(r.key)).groupMapReduce(_.method)(_ => 1)(_ + _)

  def clear(): Unit = log.synchronized(log.clear())

  def keys(prefix: String): Seq[String] =
    objects.tailMap(prefix).keySet.asScala.iterator.takeWhile(_.startsWith(prefix)).toSeq

  /** The bytes of an object. No request. */
  def size(key: String): Long = objects.get(key).bytes.length.toLong

  /** Forgets all objects below a prefix. No request. */
  def wipe(prefix: String): Unit = keys(prefix).foreach(objects.remove(_))

  def behaving[T](as: Behaviour)(body: => T): T = {
    random = new Random(as.seed)
    behaviour = as
    try body
    finally behaviour = Behaviour()
  }

  /** Whether there are objects below a directory. No request. */
  def isDirectory(key: String): Boolean = keys(s"$key/").nonEmpty

  /** Makes a directory that has lost its last file. No request. */
  def keepDirectory(key: String): Unit =
    if (key.nonEmpty && !isDirectory(key))
      objects.put(s"$key/", Stored(Array.emptyByteArray, clock.incrementAndGet())): Unit

  /** A request that changes nothing, for instance that which begins an upload. */
  def note(method: Method, key: String): Unit = request(method, key, 0)

  def head(key: String): Option[Stored] = {
    request(Head, key, 0)
    Option(objects.get(key))
  }

  def get(key: String, from: Long, length: Int): Option[Array[Byte]] = {
    val found = Option(objects.get(key))
    val bytes = found.map(s =>
      java.util.Arrays.copyOfRange(s.bytes, from.toInt, Math.min(s.bytes.length, from.toInt + length))
    )
    request(Get, key, bytes.fold(0L)(_.length.toLong))
    bytes
  }

  /** @param exclusive whether it must be the first of its key */
  def put(
      key: String,
      bytes: Array[Byte],
      exclusive: Boolean,
      header: Option[(String, String)] = None
  ): Unit = {
    request(Put, key, bytes.length.toLong)
    val stored = Stored(bytes, clock.incrementAndGet(), header)
    if (exclusive && behaviour.exclusive) {
      if (objects.putIfAbsent(key, stored) != null) throw new PreconditionFailed(key)
    } else objects.put(key, stored): Unit
    if (behaviour.lostAnswer > 0 && rolled < behaviour.lostAnswer) throw new AnswerLost(key)
  }

  def copy(from: String, to: String): Unit = {
    val source = objects.get(from)
    request(Copy, to, source.bytes.length.toLong)
    objects.put(to, source.copy(modified = clock.incrementAndGet())): Unit
  }

  /** One request for all of them, and nobody sees a part. */
  def rename(moved: Seq[(String, String)]): Unit = {
    request(Rename, moved.head._2, 0)
    objects.synchronized(moved.foreach { case (from, to) => objects.put(to, objects.remove(from)) })
  }

  /** One request for up to a thousand keys. */
  def delete(keys: Seq[String]): Unit = keys.grouped(1000).foreach { some =>
    request(Delete, some.head, 0)
    some.foreach(objects.remove(_))
  }

  /** The keys below a prefix: a thousand to a page.
    *
    * @param most the most that the caller wants to know of
    */
  def list(prefix: String, most: Int = Int.MaxValue): Seq[(String, Stored)] = {
    val found = objects
      .tailMap(prefix)
      .entrySet
      .asScala
      .iterator
      .takeWhile(_.getKey.startsWith(prefix))
      .take(most)
      .map(e => e.getKey -> e.getValue)
      .toSeq
    (0 to found.size / 1000).foreach(_ => request(ListPage, prefix, 0))
    found
  }

  private def request(method: Method, key: String, bytes: Long): Unit = {
    log.synchronized(log += Request(method, key, bytes)): Unit
    val pause = behaviour.latencyMs * Math.exp(behaviour.sigma * gaussian) + bytes / behaviour.bytesPerMs
    if (pause >= 1) Thread.sleep(pause.toLong)
    if (behaviour.ratePrefix < Int.MaxValue) limit(key)
  }

  private def limit(key: String): Unit = rates.synchronized {
    val prefix = key.substring(0, Math.max(0, key.lastIndexOf('/')))
    val second = System.currentTimeMillis / 1000
    val soFar = rates.get(prefix).filter(_._1 == second).fold(0)(_._2)
    if (soFar >= behaviour.ratePrefix) throw new SlowDown(key)
    rates(prefix) = (second, soFar + 1)
  }

  private def gaussian: Double = log.synchronized(random.nextGaussian())
  private def rolled: Double = log.synchronized(random.nextDouble())
}
