package io.tailrace.exchange

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import io.tailrace.checkpoint.DurableFiles

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
