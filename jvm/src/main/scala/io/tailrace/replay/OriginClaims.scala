package io.tailrace.replay

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.DriverAnswers

import io.tailrace.common.ReplayErrors

/** Which partition each origin of a batch is read from, on the driver: tasks claim the origins that they are the first to
  * have there before they end, so that no batch is done in which two of them have judged records of one origin, neither
  * knowing of the other's.
  *
  * {{{
  *   task 0, of topic-2/0:  (p, 0), (p, 2)  ──> taken
  *   task 1, of topic-2/1:  (p, 1), (p, 2)  ──> (p, 2) is topic-2/0's: the task fails, and with it the batch
  * }}}
  *
  * An origin that the marks have at the partition already is claimed no more. A task that runs twice claims the same again.
  */
private[replay] final class OriginClaims(filter: String, notices: ReplayNotices)
    extends DriverAnswers
    with Logging {
  private val origins = new MarkTable(0)

  override def answer(question: Array[Byte]): Array[Byte] = {
    val in = new DataInputStream(new ByteArrayInputStream(question))
    val home = in.readUTF()
    val told = in.readInt()
    ReplayNotices.all.filter(notice => (told & notice.bit) != 0).foreach(notices.tell(_, filter, home))
    val number = origins.homes.of(home)
    Iterator
      .fill(in.readInt()) {
        val entry = origins.findOrAppend(in.readLong(), in.readInt())
        if (origins.home(entry) == Homes.Unknown) origins.setHome(entry, number)
        entry
      }
      .find(origins.home(_) != number)
      .fold(Array.emptyByteArray)(conflict)
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

/** What one task claims, of the partitions that it reads.
  *
  * @param ask the driver
  */
private[replay] final class TaskClaims(moved: MarkTable, ask: Array[Byte] => Array[Byte]) {
  import TaskClaims._

  private var entries = new Array[Int](16)
  private var used = 0

  /** An entry whose origin the marks don't have at its home. */
  def add(entry: Int): Unit = {
    if (used == entries.length) entries = java.util.Arrays.copyOf(entries, used * 2)
    entries(used) = entry
    used += 1
  }

  /** @param told notices for the driver, by [[ReplayNotice.bit]]
    * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_ORIGIN_SPLIT
    */
  def make(told: Int): Unit = {
    val byHome = entries.iterator.take(used).toSeq.groupBy(moved.home).toSeq.sortBy(_._1)
    byHome.foreach { case (home, claimed) =>
      claimed.grouped(MostAtOnce).foreach(send(moved.homes.name(home).get, told, _))
    }
    if (byHome.isEmpty && told != 0) send(moved.homes.name(0).getOrElse(""), told, Nil)
  }

  private def send(home: String, told: Int, claimed: Seq[Int]): Unit = {
    val bytes = new ByteArrayOutputStream(claimed.size * 12 + home.length + 16)
    val out = new DataOutputStream(bytes)
    out.writeUTF(home)
    out.writeInt(told)
    out.writeInt(claimed.size)
    claimed.foreach { entry =>
      out.writeLong(moved.pid(entry))
      out.writeInt(moved.partition(entry))
    }
    val answer = ask(bytes.toByteArray)
    if (answer.nonEmpty) {
      val in = new DataInputStream(new ByteArrayInputStream(answer))
      throw ReplayErrors.originSplit(in.readLong(), in.readInt(), in.readUTF(), home)
    }
  }
}

private object TaskClaims {

  /** Of 12 bytes each; a message between Spark's processes has at most 128 MiB. */
  val MostAtOnce: Int = 1 << 20
}
