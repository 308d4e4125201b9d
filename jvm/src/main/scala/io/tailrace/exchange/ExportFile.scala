package io.tailrace.exchange

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.parse
import org.json4s.jackson.Serialization
import org.json4s.{Formats, JInt, NoTypeHints}

import io.tailrace.checkpoint.{CheckedText, DurableFiles}

/** The description of an export's files: `_tailrace_export.json` in its directory, written last.
  *
  * @param batch       that has made the version
  * @param entry       of Spark's offset log: its settings, and the watermark of the batch
  * @param offsets     the ends of the sources' read rows, one line each, as in Spark's log
  * @param watermarkMs of the next batch
  * @param format      of Spark's checkpoint, 1 or 2
  * @param others      the query's state besides joins, by name
  * @param sources     the sources' own files in the checkpoint; none in exports of format 1
  */
final case class ExportReport(
    checkpoint: String,
    version: Long,
    batch: Long,
    partitions: Int,
    entry: String,
    offsets: Seq[String],
    watermarkMs: Long,
    format: Int,
    operators: Seq[ExportedJoin],
    others: Seq[String],
    sources: Seq[ExportedFile] = Nil
) {

  /** The watermark of the batch: rows of the next one are late by it. */
  def lateWatermarkMs: Long = ExportFile.watermarkOf(entry)

  /** For Python. */
  def json: String = ExportFile.json(this)
}

/** @param path below `sources` of the export */
final case class ExportedFile(path: String, length: Long)

/** @param directory below the export's, with the directories `left`, `right`, `matches` if matching is eager, and
  *                  `emitted` if left rows that were emitted may be amended
  * @param settings  the pinned settings of the checkpoint
  * @param rows      by directory
  * @param files     their names, by directory; none in exports of format 1
  * @param state     the facts in the state besides its rows; none in exports of format 1
  */
final case class ExportedJoin(
    operator: Long,
    name: String,
    directory: String,
    settings: Map[String, String],
    rows: Map[String, Long],
    files: Map[String, Seq[String]] = Map.empty,
    state: Option[ExportedState] = None
)

/** The facts in a join's state besides its rows. Times are in microseconds.
  *
  * @param expiredThrough see [[io.tailrace.state.Manifest]]: the minimum over all partitions
  * @param operatorTime   the same
  * @param amendsAfter    the maximum over all partitions
  * @param behind         the column of `right` with the watermark at which a row was late; none: there are none
  * @param missed         see [[MissedMatches]]
  */
final case class ExportedState(
    expiredThrough: Long,
    operatorTime: Long,
    amendsAfter: Option[Long],
    behind: Option[String],
    missed: Long
)

private[exchange] object ExportFile {
  private val Name = "_tailrace_export.json"
  private val OldestFormat = 1
  private val Format = 2
  private val checked =
    new CheckedText("tailrace-export", "the description of an export", OldestFormat, Format)
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  def json(report: ExportReport): String = Serialization.write(report)

  /** @param entry of Spark's offset log */
  def watermarkOf(entry: String): Long = {
    val JInt(watermark) = (parse(entry) \ "batchWatermarkMs"): @unchecked
    watermark.toLong
  }

  def write(directory: Path, conf: Configuration, report: ExportReport): Unit =
    DurableFiles.in(directory, conf).write(new Path(directory, Name))(_.write(checked.encode(json(report))))

  def read(directory: Path, conf: Configuration): ExportReport = {
    val path = new Path(directory, Name)
    val bytes = DurableFiles.in(directory, conf).find(path).getOrElse {
      throw ExchangeErrors.noExport(directory.toString)
    }
    checked.decode(bytes, path.toString)(Serialization.read[ExportReport])
  }
}
