package io.tailrace.replay

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.DriverAnswers

/** Knows on the driver which partition each origin of a batch is read from. Before a task ends, it claims its
  * origins. So no batch is done in which two tasks have judged records of one origin, neither knowing the
  * records of the other.
  *
  * {{{
  *   task 0, of topic-2/0:  (p, 0), (p, 2)  ──> taken
  *   task 1, of topic-2/1:  (p, 1), (p, 2)  ──> (p, 2) is topic-2/0's: the task fails, and with it the batch
  * }}}
  *
  * An origin is at home if the marks have it at the partition already. Another task may have records of the
  * same origin, which has moved there. So tasks claim origins at home, too. The driver looks at these only
  * when some origin of the batch has moved. Mostly none has, and their bytes stay as they came. A task that
  * runs twice claims the same again.
  */
private[replay] final class OriginClaims(filter: String, notices: ReplayNotices)
    extends DriverAnswers
    with Logging {
  private val origins = new MarkTable(0)

  // The origins at home that tasks have claimed, until an origin of the batch has moved.
  private val atHome = mutable.ArrayBuffer.empty[(Int, Array[Byte])]
  private var anyMoved = false

  override def answer(question: Array[Byte]): Array[Byte] = {
    val in = new DataInputStream(new ByteArrayInputStream(question))
    val home = in.readUTF()
    val told = in.readInt()
    ReplayNotices.all.filter(notice => (told & notice.bit) != 0).foreach(notices.tell(_, filter, home))
    val number = origins.homes.of(home)
    val claimed = in.readNBytes(in.readInt())
    atHome += number -> in.readAllBytes()
    anyMoved ||= (told & ReplayNotices.Moved.bit) != 0
    // The first task keeps an origin: a task that is refused once is refused each time.
    val conflicts = if (anyMoved) atHome.flatMap { case (at, stayed) => claim(at, stayed) } else Nil
    if (anyMoved) atHome.clear()
    (conflicts ++ claim(number, claimed)).headOption.fold(Array.emptyByteArray)(conflict)
  }

  /** @return an entry of another partition */
  private def claim(number: Int, claimed: Array[Byte]): Option[Int] = {
    val in = ByteBuffer.wrap(claimed)
    Iterator
      .continually(in)
      .takeWhile(_.hasRemaining)
      .map { _ =>
        val entry = origins.findOrAppend(in.getLong(), in.getInt())
        if (origins.home(entry) == Homes.Unknown) origins.setHome(entry, number)
        entry
      }
      .find(origins.home(_) != number)
  }

  private def conflict(entry: Int): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeLong(origins.pid(entry))
    out.writeInt(origins.partition(entry))
    out.writeUTF(origins.homes.name(origins.home(entry)).get)
    bytes.toByteArray
  }
}

/** The claims of one task.
  *
  * @param ask the driver
  */
private[replay] final class TaskClaims(moved: MarkTable, ask: Array[Byte] => Array[Byte]) {
  import TaskClaims._

  // The index is the number of the partition.
  private val told = mutable.ArrayBuffer.empty[HomeClaims]

  /** Adds an origin that the task has judged.
    *
    * @param isHome whether the marks have it at its home
    */
  def add(entry: Int, isHome: Boolean): Unit = {
    val home = moved.home(entry)
    while (told.size <= home) told += new HomeClaims
    val origins = if (isHome) told(home).stayed else told(home).claimed
    origins.add(moved.pid(entry), moved.partition(entry))
  }

  /** @param notices for the driver, by [[ReplayNotice.bit]]
    * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_ORIGIN_SPLIT
    */
  def make(notices: Int): Unit = {
    val homes = told.indices.filter(told(_).length > 0)
    homes.foreach { home =>
      val (claimed, stayed) = (told(home).claimed, told(home).stayed)
      (0 until told(home).length by MostAtOnce).foreach { from =>
        send(moved.homes.name(home).get, notices, claimed.part(from), stayed.part(from))
      }
    }
    if (homes.isEmpty && notices != 0) {
      send(moved.homes.name(0).getOrElse(""), notices, Array.emptyByteArray, Array.emptyByteArray)
    }
  }

  private def send(home: String, notices: Int, claimed: Array[Byte], stayed: Array[Byte]): Unit = {
    val bytes = new ByteArrayOutputStream(claimed.length + stayed.length + home.length + 16)
    val out = new DataOutputStream(bytes)
    out.writeUTF(home)
    out.writeInt(notices)
    out.writeInt(claimed.length)
    out.write(claimed)
    out.write(stayed)
    val answer = ask(bytes.toByteArray)
    if (answer.nonEmpty) {
      val in = new DataInputStream(new ByteArrayInputStream(answer))
      throw ReplayErrors.originSplit(in.readLong(), in.readInt(), in.readUTF(), home)
    }
  }
}

private object TaskClaims {

  /** In bytes, 12 for an origin. A message between Spark's processes has at most 128 MiB. */
  val MostAtOnce: Int = 12 << 20

  private final class HomeClaims {
    val claimed = new Origins
    val stayed = new Origins
    def length: Int = Math.max(claimed.size, stayed.size)
  }

  /** Producer ids and partitions, 12 bytes together: a batch may have a hundred thousand of them. */
  private final class Origins {
    private var buffer = ByteBuffer.allocate(1 << 10)

    def size: Int = buffer.position()

    def add(pid: Long, partition: Int): Unit = {
      if (buffer.remaining < 12) {
        buffer = ByteBuffer.allocate(Math.multiplyExact(buffer.capacity, 2)).put(buffer.flip())
      }
      buffer.putLong(pid).putInt(partition): Unit
    }

    /** The bytes of a message, from a place on. */
    def part(from: Int): Array[Byte] =
      if (from >= size) Array.emptyByteArray
      else Arrays.copyOfRange(buffer.array, from, from + Math.min(size - from, MostAtOnce))
  }
}
