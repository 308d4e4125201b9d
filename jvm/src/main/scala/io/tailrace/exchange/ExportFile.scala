package io.tailrace.exchange

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.{CheckedText, DurableFiles}

/** What an export's files are: `_tailrace_export.json` in its directory, written last.
  *
  * @param batch       that has made the version
  * @param entry       of Spark's offset log: its settings, and the watermark of the batch
  * @param offsets     where the sources have been read to, a line each, as Spark's log has them
  * @param watermarkMs of the next batch
  * @param format      of Spark's checkpoint, 1 or 2
  * @param others      what the query keeps beside joins, by name
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
    others: Seq[String]
) {

  /** For Python. */
  def json: String = ExportFile.json(this)
}

/** @param directory below the export's, with the directories `left`, `right`, and `matches` if matching is eager
  * @param settings  what the checkpoint is bound to
  * @param rows      by directory
  */
final case class ExportedJoin(
    operator: Long,
    name: String,
    directory: String,
    settings: Map[String, String],
    rows: Map[String, Long]
)

private[exchange] object ExportFile {
  private val Name = "_tailrace_export.json"
  private val Format = 1
  private val checked = new CheckedText("tailrace-export", "the description of an export", Format, Format)
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  def json(report: ExportReport): String = Serialization.write(report)

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
