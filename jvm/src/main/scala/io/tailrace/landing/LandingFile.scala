package io.tailrace.landing

import scala.util.control.NonFatal

import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.common.{ChecksummedText, Errors}

/** Whose folder it is, and which windows it has: written once.
  *
  * @param queryId of the query that lands here; it has one checkpoint
  * @param into    the column that directories of windows are named after
  */
final case class FolderFile(queryId: String, width: Long, offset: Long, into: String)

/** What one micro-batch lands: decided when this is written, whatever happens then.
  *
  * @param offsets what the batch was made of, in short
  * @param staging the attempt that has written the files, below `staging`
  * @param open    rows of the open windows with this batch
  * @param late    rows that have come late, with this batch, of the latest windows that had some
  */
final case class BatchFile(
    batch: Long,
    offsets: String,
    staging: String,
    files: Seq[LandedFile],
    untimed: Long,
    open: Seq[WindowRows],
    late: Seq[WindowRows]
) {

  /** Rows of this batch that were late. */
  def lateRows: Long = files.filter(_.late).map(_.rows).sum
  def rows: Long = files.map(_.rows).sum
}

/** @param from  below the staging directory
  * @param to    below the folder
  * @param start of the window; none: the rows have no event time
  */
final case class LandedFile(
    from: String,
    to: String,
    length: Long,
    rows: Long,
    start: Option[Long],
    late: Boolean
)

final case class WindowRows(start: Long, rows: Long)

/** Windows that close, and those before them that have: written before the first of them is marked.
  *
  * @param through all windows that end then or before are closed
  */
final case class ClosedFile(through: Long, windows: Seq[ClosedWindow])

/** @param report what its `_SUCCESS` holds */
final case class ClosedWindow(start: Long, report: String)

/** The files below `_tailrace`: three lines each, magic and format, JSON, CRC-32C of both; see `jvm/docs/formats.md`. */
object LandingFile {
  private val text = new ChecksummedText("tailrace-windows", oldest = 1, newest = 1, "such a file")
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  def encode(content: AnyRef): Array[Byte] = text.encode(Serialization.write(content))

  /** @param file what to call it in an error */
  def decode[T](bytes: Array[Byte], file: String)(implicit kind: scala.reflect.Manifest[T]): T = {
    val body = text.decode(bytes, file)
    try Serialization.read[T](body)
    catch { case NonFatal(e) => throw Errors.stateFileCorrupt(file, "its content can't be read", e) }
  }
}
