package io.tailrace.recursion

import java.io._
import java.util.zip.{CRC32C, CheckedInputStream, CheckedOutputStream}

import io.tailrace.checkpoint.CheckedBytes
import io.tailrace.common.Errors

/** The rows that one task has fed back: format 2, big-endian, see `jvm/docs/formats.md`. Format 1 has no
  * place.
  *
  * {{{
  *   "TRFB"(4) format(4) place(4 + n) columns(4 + n)
  *   each row: length(4) bytes
  *   -1(4) rows(8) CRC-32C of all before(4)
  * }}}
  *
  * The bytes of a row are those of Spark's unsafe row with these columns.
  */
object FeedbackFile {
  private val Layout =
    new CheckedBytes(0x54524642, "a file of rows that were fed back", oldest = 1, newest = 2, placedSince = 2)
  private val End = -1

  // The largest row that Spark can hold.
  private val MostBytes = Int.MaxValue - 16

  /** Writes row after row. Without rows the file is not opened.
    *
    * @param place the file's [[FeedbackLog.place]]: a reader refuses the file of another batch
    */
  final class Writer(open: () => OutputStream, place: String, columns: String) {
    private val crc = new CRC32C
    private var out: DataOutputStream = _
    private var written = 0L

    def rows: Long = written

    private def begin(): Unit = {
      out = new DataOutputStream(new CheckedOutputStream(new BufferedOutputStream(open(), 1 << 16), crc))
      Layout.writeHead(out, place)
      CheckedBytes.writeText(out, columns)
    }

    /** @param write writes the row's bytes */
    def add(length: Int)(write: OutputStream => Unit): Unit = {
      if (out == null) begin()
      out.writeInt(length)
      write(out)
      written += 1
    }

    def end(): Unit = if (out != null) {
      out.writeInt(End)
      out.writeLong(written)
      out.flush()
      out.writeInt(crc.getValue.toInt)
      out.flush()
    }
  }

  /** The columns of a file's rows, which precede the rows.
    *
    * @param name  the file, for errors
    * @param place where it is read
    */
  def columns(in: InputStream, name: String, place: String): String = {
    val data = new DataInputStream(new BufferedInputStream(in))
    try {
      Layout.readHead(data, name, place): Unit
      CheckedBytes.readText(data)
    } catch { case e: EOFException => throw Errors.stateFileCorrupt(name, "it ends too soon", e) }
  }

  /** Reads row after row. Damage is found at the file's end at the latest, and fails the task.
    *
    * @param name    the file, for errors
    * @param place   where it is read
    * @param columns those that the rows must have
    */
  final class Reader(in: InputStream, name: String, place: String, columns: String) extends Closeable {
    private val crc = new CRC32C
    private val data = new DataInputStream(new CheckedInputStream(new BufferedInputStream(in, 1 << 16), crc))
    private var read = 0L
    private var buffer = new Array[Byte](1024)
    private var begun = false

    /** The bytes of the row that `next` has found. */
    def bytes: Array[Byte] = buffer

    private def begin(): Unit = {
      begun = true
      Layout.readHead(data, name, place): Unit
      val written = CheckedBytes.readText(data)
      if (written != columns) throw RecursionErrors.schemaChanged(name, written, columns)
    }

    /** @return the length of the next row, or -1 */
    def next(): Int =
      try {
        if (!begun) begin()
        val size = data.readInt()
        if (size == End) end()
        else {
          if (size < 0 || size > MostBytes) throw Errors.stateFileCorrupt(name, s"a length of $size")
          if (size > buffer.length) buffer = new Array[Byte](Math.max(size, buffer.length * 2))
          data.readFully(buffer, 0, size)
          read += 1
        }
        size
      } catch { case e: EOFException => throw Errors.stateFileCorrupt(name, "it ends too soon", e) }

    private def end(): Unit = {
      val rows = data.readLong()
      val checksum = crc.getValue.toInt
      Layout.checkEnd(checksum, data.readInt(), name)
      if (rows != read) throw Errors.stateFileCorrupt(name, s"it has $read rows of $rows")
      if (data.read() >= 0) throw Errors.stateFileCorrupt(name, "there are bytes behind its end")
    }

    override def close(): Unit = data.close()
  }
}

/** The name of a file with the rows that one task of a micro-batch has fed back.
  *
  * {{{
  *   3-4f0c...-1-of-8.fed    run 3 of the batch, with the id 4f0c..., task 1 of 8
  *   3-4f0c...-2-of-8.none   task 2 has fed nothing back
  * }}}
  *
  * A batch that runs again writes under the next number. The rows of a batch are those of the newest run
  * whose tasks have all written. Files of two runs are never mixed.
  *
  * @param run counts the runs of a batch
  * @param id  differs for two runs of one number, as when a DataFrame is in a plan twice
  */
private[recursion] final case class FeedbackName(
    run: Int,
    id: String,
    task: Int,
    tasks: Int,
    content: FeedbackContent = FeedbackContent.Rows
) {
  def attempt: FeedbackAttempt = FeedbackAttempt(run, id)
  override def toString: String = s"$run-$id-$task-of-$tasks.${content.extension}"

  /** @param length the length of the file */
  def hasRows(length: Long): Boolean = content match {
    case FeedbackContent.Rows => true
    case FeedbackContent.NoRows => false
    case FeedbackContent.Format1 => length > 0
  }
}

/** The content of a file. It is in the name, so a file that has lost its bytes isn't mistaken for one
  * without rows.
  */
private[recursion] sealed abstract class FeedbackContent(val extension: String)

private[recursion] object FeedbackContent {
  case object Rows extends FeedbackContent("fed")
  case object NoRows extends FeedbackContent("none")

  /** A file of an earlier release. It has no bytes if there were no rows. */
  case object Format1 extends FeedbackContent("rows")

  val all: Seq[FeedbackContent] = Seq(Rows, NoRows, Format1)
}

/** One run of a micro-batch. */
private[recursion] final case class FeedbackAttempt(run: Int, id: String) {
  override def toString: String = s"$run-$id"
}

private[recursion] object FeedbackAttempt {
  private val Text = """(\d+)-([0-9a-f]{32})""".r

  def parse(text: String): Option[FeedbackAttempt] = text match {
    case Text(run, id) => run.toIntOption.map(FeedbackAttempt(_, id))
    case _ => None
  }
}

private[recursion] object FeedbackName {
  private val Text = """(\d+)-([0-9a-f]{32})-(\d+)-of-(\d+)\.([a-z]+)""".r

  def parse(name: String): Option[FeedbackName] = name match {
    case Text(run, id, task, tasks, extension) =>
      for {
        r <- run.toIntOption
        t <- task.toIntOption
        n <- tasks.toIntOption
        content <- FeedbackContent.all.find(_.extension == extension)
      } yield FeedbackName(r, id, t, n, content)
    case _ => None
  }

  /** The run whose files are the batch's: the newest complete one, if there is any. */
  def complete(names: Seq[FeedbackName]): Option[FeedbackAttempt] =
    names
      .groupBy(_.attempt)
      .collect {
        // A run without tasks leaves one marker file.
        case (attempt, files) if files.map(_.task).distinct.size == Math.max(1, files.head.tasks) => attempt
      }
      .minByOption(attempt => (-attempt.run, attempt.id))

  /** The number of the next run. */
  def nextRun(names: Seq[FeedbackName]): Int = names.map(_.run + 1).maxOption.getOrElse(0)
}

/** Chooses the files that a task reads. Small files share a task, so an iteration of few rows needs few tasks. */
object FeedbackSplits {

  /** The most bytes that a task reads, unless one file is larger. */
  val Bytes: Long = 4L << 20

  /** @param files names and lengths
    * @return each file once, in their order
    */
  def group(files: Seq[(String, Long)]): Seq[Seq[String]] =
    files
      .foldLeft(Vector.empty[(Vector[String], Long)]) { case (groups, (name, length)) =>
        groups.lastOption match {
          case Some((names, bytes)) if bytes + length <= Bytes =>
            groups.init :+ ((names :+ name, bytes + length))
          case _ => groups :+ ((Vector(name), length))
        }
      }
      .map(_._1)
}
