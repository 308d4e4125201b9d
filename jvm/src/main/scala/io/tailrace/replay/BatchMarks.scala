package io.tailrace.replay

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.util.BitSet

import scala.collection.mutable

import org.apache.spark.sql.tailrace.DriverAnswers

/** Gathers on the driver the marks that the tasks of a batch have moved. Each task tells its own before it
  * ends. So no batch is done before its marks are written, nor one in which two tasks have judged records of
  * one origin, neither knowing the records of the other.
  *
  * {{{
  *   task 0, of topic-2/0:  (p, 0) -> 44, (p, 2) -> 9  ──> taken
  *   task 1, of topic-2/1:  (p, 1) -> 17, (p, 2) -> 8  ──> (p, 2) is topic-2/0's: the task fails, and the batch
  *   task 1, of topic-2/1:  (p, 1) -> 17               ──> taken; the last one: written, then it may end
  * }}}
  *
  * A task that runs twice tells the same again, and the first to tell counts.
  *
  * @param tasks  how many there are
  * @param before the marks that the batch begins with, which aren't changed
  * @param done   is given the marks after the batch, and the tables that the tasks have sent. If it throws, it
  *               is called again when a task tells again. None: marks aren't kept
  */
private[tailrace] final class BatchMarks(
    settings: ReplaySettings,
    notices: ReplayNotices,
    tasks: Int,
    private var before: MarkTable,
    done: Option[(MarkTable, Seq[Array[Byte]]) => Unit]
) extends DriverAnswers {
  import BatchMarks._

  private var after = before
  // The entries of `after` that a task has judged.
  private val judged = new BitSet
  private val tables = mutable.ArrayBuffer.empty[Array[Byte]]

  // By attempt, until its last message: attempts at one task are never mixed.
  private val coming = mutable.HashMap.empty[Long, mutable.ArrayBuffer[Array[Byte]]]
  private val told = new BitSet
  private val refused = mutable.HashMap.empty[Int, Array[Byte]]
  private var isBroken = false
  private var isDone = false

  /** Ends a batch that has no tasks. */
  def endIfEmpty(): Unit = synchronized(if (tasks == 0) end())

  override def answer(question: Array[Byte]): Array[Byte] = synchronized {
    if (isBroken)
      throw new IllegalStateException(s"the filter ${settings.name} has failed to gather the batch's marks")
    val in = new DataInputStream(new ByteArrayInputStream(question))
    val (task, attempt, isLast, bits, place) =
      (in.readInt(), in.readLong(), in.readBoolean(), in.readInt(), in.readUTF())
    coming.getOrElseUpdate(attempt, mutable.ArrayBuffer.empty) += in.readAllBytes()
    if (!isLast) Accepted
    else {
      ReplayNotices.all
        .filter(notice => (bits & notice.bit) != 0)
        .foreach(notices.tell(_, settings.name, place))
      val sent = coming.remove(attempt).get
      if (!told.get(task)) {
        // A part of a task's marks must not pass for all of them when it tells again, for want of memory say.
        isBroken = true
        // A task that is refused once is refused each time.
        take(sent.toSeq).foreach(refused(task) = _)
        told.set(task)
        isBroken = false
      }
      if (told.cardinality == tasks && refused.isEmpty && !isDone) end()
      refused.getOrElse(task, Accepted)
    }
  }

  /** @return the answer to a task that has judged an origin which another one has judged */
  private def take(sent: Seq[Array[Byte]]): Option[Array[Byte]] = {
    var conflict = Option.empty[Array[Byte]]
    sent.filter(MarkFile.entriesIn(_) > 0).foreach { table =>
      if (after eq before) after = settings.next(before)
      MarkFile.decodeTable(table, after) { entry =>
        if (judged.get(entry) && conflict.isEmpty) conflict = Some(split(after, entry))
        judged.set(entry)
      }
      if (done.isDefined) tables += table
    }
    conflict
  }

  private def end(): Unit = {
    done.foreach(_(after, tables.toSeq))
    isDone = true
    tables.clear()
    // Spark may keep this for as long as the batch's plan: there may be millions of marks.
    before = null
    after = null
  }
}

private[tailrace] object BatchMarks {
  private val Accepted = Array.emptyByteArray

  private def split(marks: MarkTable, entry: Int): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeLong(marks.pid(entry))
    out.writeInt(marks.partition(entry))
    out.writeUTF(marks.homes.name(marks.home(entry)).getOrElse(""))
    bytes.toByteArray
  }

  /** In bytes. A message between Spark's processes has at most 128 MiB. */
  private val MostAtOnce = 12 << 20

  /** Sends the marks that a task has moved to the driver, which keeps them.
    *
    * @param task     the index of its partition
    * @param attempt  at the task
    * @param disorder that of the driver's table
    * @param ask      the driver
    */
  final class Report(task: Int, attempt: Long, disorder: Int, ask: Array[Byte] => Array[Byte]) {

    /** @param notices for the driver, by [[ReplayNotice.bit]]
      * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_ORIGIN_SPLIT
      */
    def send(moved: MarkTable, notices: Int): Unit = {
      val atOnce = Math.max(1, MostAtOnce / MarkFile.entryLength(disorder))
      val place = if (moved.homes.size == 0) "" else moved.homes.name(0).get
      val parts = (0 until Math.max(moved.size, 1)) by atOnce
      parts.foreach { from =>
        val isLast = from + atOnce >= moved.size
        val table = MarkFile.encodeTable(moved, from, Math.min(from + atOnce, moved.size), disorder)
        val bytes = new ByteArrayOutputStream(table.length + place.length + 64)
        val out = new DataOutputStream(bytes)
        out.writeInt(task)
        out.writeLong(attempt)
        out.writeBoolean(isLast)
        out.writeInt(notices)
        out.writeUTF(place)
        out.write(table)
        val answer = ask(bytes.toByteArray)
        if (answer.nonEmpty) {
          val in = new DataInputStream(new ByteArrayInputStream(answer))
          val (pid, partition) = (in.readLong(), in.readInt())
          val here = moved.homes.name(moved.home(moved.find(pid, partition))).getOrElse("")
          throw ReplayErrors.originSplit(pid, partition, in.readUTF(), here)
        }
      }
    }
  }
}
