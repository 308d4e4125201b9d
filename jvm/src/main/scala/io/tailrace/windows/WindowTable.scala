package io.tailrace.windows

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.common.LiteralPath
import io.tailrace.plan.Columns
import io.tailrace.tables.{TableCommits, TableWriter, TargetTable}

/** The table of complete windows. */
private[windows] trait WindowTable {

  /** With its catalog. */
  def name: String

  /** Commits a window with all its rows, unless the table has it.
    *
    * @param queryId   of the query whose windows they are
    * @param directory with the files of the window
    * @param isAgain   whether the table may have the window
    */
  def commit(queryId: String, window: ClosedWindow, directory: Path, isAgain: Boolean): Unit
}

/** A table of a library.
  *
  * {{{
  *   <folder>/window_start=.../part-...     rows of the window, of several micro-batches, until it is complete
  *   the table                              one commit: these rows, and the window's report
  *   <folder>/window_start=.../_SUCCESS     then the parts are deleted
  * }}}
  *
  * The windows of a query close in the order of their starts. So the start is the number by which the table knows that it
  * has a window.
  *
  * @param rows   the columns of the query's rows
  * @param writer of the query
  */
private[windows] final class LakeTable(
    session: SparkSession,
    settings: LandingSettings,
    named: TableName,
    rows: StructType,
    writer: TableWriter
) extends WindowTable {
  private val table = new TargetTable(session, named.name, named.format)
  table.open(rows, writer)

  // Not the user's: Iceberg's catalog keeps tables that it has loaded.
  private val own = SparkPlans.copyOf(session)

  override val name: String = table.wholeName

  override def commit(queryId: String, window: ClosedWindow, directory: Path, isAgain: Boolean): Unit = {
    val target = table.in(own)
    val twoWriters = WindowErrors.twoWriters(name, _: Throwable)
    val commits =
      new TableCommits(target, queryId, LakeTable.Counted, writer.options, (_, cause) => twoWriters(cause))
    val number = Math.addExact(window.start, LakeTable.Zero)
    if (!commits.has(number)) {
      val landed = read(target, directory)
      val (found, known) = (landed.count(), WindowReport.decode(window.report).get.rows)
      if (found != known) throw WindowErrors.rowsMissing(directory.toString, name, found, known)
      commits.append(target.fitted(landed), number, Some(WindowReport.inTable(window.report, settings.path)))
    } else if (!isAgain) throw twoWriters(null)
  }

  /** The rows of a window. */
  private def read(target: TargetTable, directory: Path): DataFrame = {
    val fileSystem = directory.getFileSystem(own.sessionState.newHadoopConf())
    val bytes = LandingPaths.withRows(fileSystem, directory).map(_.getLen).sum
    if (bytes == 0) own.createDataFrame(java.util.List.of[Row](), rows)
    else {
      val frame = files.schema(schema(target, directory)).parquet(directory.toString)
      settings.fileBytes.fold(frame) { size =>
        val tasks = Math.max(1, (bytes + size - 1) / size).toInt
        settings.clusters.fold(frame.coalesce(tasks))(clustered(frame, _, tasks))
      }
    }
  }

  /** Each file has a range of the columns' values, so that readers can skip files, too. */
  private def clustered(frame: DataFrame, clusters: Clusters, files: Int): DataFrame = {
    def named(names: Seq[String]) = names.map(Columns.named)
    frame
      .repartitionByRange(files, named(clusters.columns): _*)
      .sortWithinPartitions(named(clusters.order): _*)
  }

  /** Whatever the session says: rows that were left out here would be deleted with their files. */
  private def files =
    LiteralPath.reader(own.read).option("ignoreCorruptFiles", false).option("ignoreMissingFiles", false)

  /** The query's columns, and those that only files of its earlier starts have. Other columns of the table
    * are left to its library, which computes some of them.
    */
  private def schema(target: TargetTable, directory: Path): StructType = {
    val same = own.sessionState.conf.resolver
    val others = target.columns.filterNot(column => rows.exists(field => same(field.name, column.name)))
    val inFiles =
      if (others.isEmpty) Nil
      else files.option("mergeSchema", true).parquet(directory.toString).columns.toSeq
    val earlier = others.filter(column => inFiles.exists(same(_, column.name)))
    StructType((rows ++ earlier).map { column =>
      StructField(column.name, SparkPlans.nullable(column.dataType))
    })
  }
}

private object LakeTable {

  /** The name of windows in the summary of Iceberg's snapshots. */
  private val Counted = "tailrace.window"

  /** Delta takes no numbers below zero, as the starts of windows before 1970 are. */
  private val Zero = 1L << 62
}
