package io.tailrace.windows

import org.apache.hadoop.fs.Path
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.CheckedText

/** Whose folder it is, and which windows it has: written once.
  *
  * @param queryId of the query that lands here; it has one checkpoint
  * @param into    the column that directories of windows are named after
  * @param since   the first batch that has landed here: each one since then has its file; none in format 1. It is 0, but in a
  *                folder that an earlier release let a query go on to
  */
final case class FolderFile(
    queryId: String,
    width: Long,
    offset: Long,
    into: String,
    since: Option[Long] = None
) {
  def hasWindowsOf(other: FolderFile): Boolean =
    (width, offset, into) == ((other.width, other.offset, other.into))
}

/** What one micro-batch lands: decided when this is written, whatever happens then.
  *
  * @param offsets what the batch was made of, in short
  * @param staging the attempt that has written the files, below `staging`
  * @param open    rows of the open windows with this batch
  * @param late    rows that have come late, with this batch, of the latest windows that had some
  * @param closings how many there were before it, so that a file of one that is gone is missed; none in format 1
  */
final case class BatchFile(
    batch: Long,
    offsets: String,
    staging: String,
    files: Seq[LandedFile],
    untimed: Long,
    open: Seq[WindowRows],
    late: Seq[WindowRows],
    closings: Option[Long] = None
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

/** The files below `_tailrace`: three lines each, magic, format and the file's name, JSON, CRC-32C of both; see
  * `jvm/docs/formats.md`. Format 1 has no name.
  */
object LandingFile {
  private val text =
    new CheckedText(
      "tailrace-windows",
      "a file of a folder of windows",
      oldest = 1,
      newest = 2,
      placedSince = 2
    )
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** @param name of the file: one of another batch isn't believed in its place */
  def encode(content: AnyRef, name: String): Array[Byte] = text.encode(Serialization.write(content), name)

  /** @param file what to call it in an error */
  def decode[T](bytes: Array[Byte], file: Path)(implicit kind: scala.reflect.Manifest[T]): T =
    text.decode(bytes, file.toString, file.getName)(Serialization.read[T](_))
}
