package io.tailrace.ops.exchange

import java.util.{Locale, UUID}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{col, lit, min, unix_micros}
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.{DataFrame, functions}
import org.json4s.jackson.JsonMethods.{parse, parseOpt}
import org.json4s.jackson.Serialization
import org.json4s.{Formats, JInt, JNothing, NoTypeHints}

import io.tailrace.checkpoint.{CheckedText, DurableFiles}
import io.tailrace.common.Errors.refuse
import io.tailrace.common.{LiteralPath, TailraceAnalysisException}
import io.tailrace.state.BalanceCounts

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
  * @param balance        the sum over all partitions
  */
final case class ExportedState(
    expiredThrough: Long,
    operatorTime: Long,
    amendsAfter: Option[Long],
    behind: Option[String],
    missed: Long,
    balance: Option[BalanceCounts] = None
)

private[exchange] object ExportFile {
  private val Name = "_tailrace_export.json"
  private val OldestFormat = 1
  private val Format = 2
  private val checked =
    new CheckedText("tailrace-export", "the description of an export", OldestFormat, Format)
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** @param entry of Spark's offset log */
  def watermarkOf(entry: String): Long = {
    val JInt(watermark) = (parse(entry) \ "batchWatermarkMs"): @unchecked
    watermark.toLong
  }

  def write(directory: Path, conf: Configuration, report: ExportReport): Unit =
    DurableFiles
      .in(directory, conf)
      .write(new Path(directory, Name))(_.write(checked.encode(Serialization.write(report))))

  def read(directory: Path, conf: Configuration): ExportReport = {
    val path = new Path(directory, Name)
    val bytes = DurableFiles.in(directory, conf).find(path).getOrElse {
      throw ExchangeErrors.noExport(directory.toString)
    }
    checked.decode(bytes, path.toString)(Serialization.read[ExportReport])
  }
}

/** The files of an export. Its description names them, so that a file that a copy has left out is detected.
  *
  * A user may edit a table: write other rows under the same names, add files, or rewrite it, so that all files have
  * other names. Nobody loses some of them on purpose:
  *
  * {{{
  *   named               present              meaning
  *   a b c               a b c                unchanged, or edited in place
  *   a b c               a b c d              rows were added
  *   a b c               d                    rewritten
  *   a b c               a b                  c is missing
  *   a b c               a b d                c is missing
  *   a b c               nothing              all are missing
  * }}}
  */
private[exchange] final class ExportedFiles(root: Path, conf: Configuration) {
  private val files = DurableFiles.in(root, conf)

  /** The report of an export that is complete, with the names of its files. */
  def named(report: ExportReport): ExportReport = report.copy(
    operators = report.operators.map { join =>
      join.copy(files = join.rows.map { case (table, _) => table -> namesIn(join.directory, table).sorted })
    },
    sources = ofSources
  )

  /** Refuses an export that lacks files. */
  def check(report: ExportReport): Unit = {
    val lost = for {
      join <- report.operators
      (table, names) <- join.files.toSeq.sortBy(_._1)
      there = namesIn(join.directory, table).toSet
      missing = names.filterNot(there)
      if missing.nonEmpty && (there.isEmpty || names.exists(there))
      name <- missing
    } yield s"${join.directory}/$table/$name"
    val sources = ofSources.toSet
    val all = lost ++ report.sources.filterNot(sources).map(file => s"sources/${file.path}")
    if (all.nonEmpty) throw ExchangeErrors.incomplete(root.toString, all)
  }

  /** Spark reads no others. */
  private def namesIn(directory: String, table: String): Seq[String] =
    files
      .names(new Path(root, s"$directory/$table"))
      .filterNot(name => name.startsWith("_") || name.startsWith("."))

  private def ofSources: Seq[ExportedFile] = {
    def in(directory: Path, place: String): Seq[ExportedFile] =
      files.list(directory).flatMap { (of: FileStatus) =>
        val name = of.getPath.getName
        if (of.isDirectory) in(of.getPath, s"$place$name/")
        else if (name.startsWith(".")) Nil
        else Seq(ExportedFile(s"$place$name", of.getLen))
      }
    in(SourceLogs.in(root), "").sortBy(_.path)
  }
}

/** The files of Spark's sources in a checkpoint. A source of files numbers the files that it has read, and its offset
  * is such a number: in a checkpoint without the list, new files would get used numbers, and never be read.
  *
  * {{{
  *   list of the exported query   0: a.parquet   1: b.parquet    offset 1
  *   a new checkpoint, empty      0: a, b and the new c          offset 0: read already
  * }}}
  */
private[exchange] object SourceLogs {

  /** Their directory in an export. */
  def in(directory: Path): Path = new Path(directory, "sources")

  /** Refuses numbers in lists that aren't there. */
  def check(offsets: Seq[String], sources: Option[Path], conf: Configuration): Unit = {
    // Each source has a directory, by its number.
    def isThere(source: Int) = sources.exists { directory =>
      val path = new Path(directory, source.toString)
      DurableFiles.in(path, conf).list(path).nonEmpty
    }
    val isOfList = offsets.map(parseOpt(_).exists(_ \ "logOffset" != JNothing))
    offsets.indices.find(source => isOfList(source) && !isThere(source)).map(offsets).foreach { offset =>
      throw ExchangeErrors.rows(
        s"the offset $offset is a number in the list of a source of files, which the new checkpoint wouldn't have: " +
          "import with `export=` and without `offsets`, of an export by this release"
      )
    }
  }
}

/** Checks of rows before they are written. */
private[exchange] object ReadRows {

  /** Reads each row with all of its columns, as the command that writes them does. @return how many there are */
  def count(rows: DataFrame): Long = SparkPlans.execution(rows).toRdd.count()

  /** A left row is emitted at its time.
    *
    * @param time its column
    * @return the minimum of all times, in microseconds; none: there are no rows
    */
  def oldest(left: DataFrame, time: String): Option[Long] = {
    val micros = unix_micros(col(quoteIdentifier(time)))
    val found = left.agg(functions.count(lit(1)), functions.count(micros), min(micros)).head()
    val timeless = found.getLong(0) - found.getLong(1)
    if (timeless > 0) throw ExchangeErrors.rows(s"$timeless left rows have no time")
    Option.when(!found.isNullAt(2))(found.getLong(2))
  }

  /** Parquet files, as they are now: Spark would use rows that a session has cached for files that are read in the same
    * way.
    */
  def files(session: SparkSession, path: Path): DataFrame =
    LiteralPath.reader(session.read).option("tailrace.read", UUID.randomUUID.toString).parquet(path.toString)

  /** A name that no column has, whatever its case. */
  def freeName(wish: String, columns: Iterable[String]): String = {
    val taken = columns.map(_.toLowerCase(Locale.ROOT)).toSet
    Iterator.iterate(wish)("_" + _).find(name => !taken(name)).get
  }
}

/** The errors of an export and of an import. */
object ExchangeErrors {

  def noExport(path: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_NO_EXPORT", "path" -> path)

  /** @param what the part that can't be imported: "operator 1 (stateStoreSave)" */
  def unsupported(what: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_UNSUPPORTED", "what" -> what.mkString(", "))

  /** @param columns that the join has, and that the rows lack or have of another type */
  def columns(side: String, columns: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_COLUMNS", "side" -> side, "columns" -> columns.mkString(", "))

  /** @param columns of a join that Parquet has no type for */
  def types(operator: Long, columns: Seq[String]): TailraceAnalysisException = refuse(
    "TAILRACE_STATE_EXCHANGE_TYPES",
    "operator" -> operator,
    "columns" -> columns.mkString(", ")
  )

  /** @param missing paths of files, below the export's */
  def incomplete(path: String, missing: Seq[String]): TailraceAnalysisException = {
    val (named, more) = missing.splitAt(MostFiles)
    val files = named.mkString(", ") + (if (more.isEmpty) "" else s" and ${more.size} more")
    refuse("TAILRACE_STATE_EXCHANGE_INCOMPLETE", "path" -> path, "files" -> files)
  }

  /** @param what "label 'click' with an attribution" */
  def queryNeeded(path: String, what: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_QUERY_NEEDED", "path" -> path, "what" -> what.mkString(", "))

  /** @param reason why an import would give other rows than the query that was exported */
  def unfit(path: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_UNFIT", "path" -> path, "reason" -> reason)

  private val MostFiles = 5

  /** @param what "3 left rows have no time" */
  def rows(what: String): TailraceAnalysisException = refuse("TAILRACE_STATE_EXCHANGE_ROWS", "what" -> what)
}
