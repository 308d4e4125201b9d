package io.tailrace.exchange

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types.{StructType, TimestampType}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.{LiteralPath, TailraceConf}
import io.tailrace.inspect.StateColumns
import io.tailrace.join.JoinCheckpoint
import io.tailrace.rewrite.{RewriteErrors, StoppedQuery, StoredState}

/** Writes the rows that wait in a checkpoint's joins as Parquet, with the columns of the user's streams. The query must
  * not run. Nothing of the checkpoint is changed.
  *
  * {{{
  *   operator-0/left       the left rows that wait, with all of their columns
  *   operator-0/right      right rows: the columns of `on` by the right side's names, then the others. If some came
  *                         late, behind them the watermark that a row was behind
  *   operator-0/matches    with eager matching: left and right row of each match so far
  *   operator-0/emitted    what is kept of left rows that were emitted and may be amended
  *   sources               logs that sources have in the checkpoint
  *   _tailrace_export.json what these are, written last
  * }}}
  */
private[tailrace] final class Export(session: SparkSession, checkpoint: String, directory: String) {
  private val query =
    new StoppedQuery(session, checkpoint, "an export", RewriteErrors.inUse(checkpoint))
  private val to = LiteralPath.of(directory)
  private val destination = new ExportDirectory(to, query.conf)
  import query.{completed, conf, spark, version}

  /** @param dryRun only reads and counts the rows */
  def run(dryRun: Boolean): ExportReport = {
    query.checkStopped()
    destination.checkFree()
    if (dryRun) report((_, rows) => ReadRows.count(rows))
    else
      destination.fill {
        val rows = report(write)
        // A source of files has its list there, and its offsets are numbers in it.
        DurableFiles.copyAll(new Path(query.root, "sources"), SourceLogs.in(to), conf, "the export")
        val written = new ExportedFiles(to, conf).named(rows)
        ExportFile.write(to, conf, written)
        written
      }
  }

  /** @param take what becomes of the rows of a table, with its name below the directory. It gives their number */
  private def report(take: (String, DataFrame) => Long): ExportReport = {
    val (own, others) = query.operators
    val joins = own.map(query.stored)
    val exported = joins.zip(own.map(_.name)).map { case (join, name) => exportOf(join, name, take) }
    // A query that ran meanwhile deletes versions, and the job ends with an error then. One that has begun a batch is
    // no harm: the rows are those of one version.
    val (entry, commit) = (spark.entry(completed), spark.commit(completed))
    ExportReport(
      checkpoint,
      version,
      completed,
      query.holding(joins.head).partitions,
      entry(1),
      entry.drop(2).toSeq,
      commit.watermarkMs,
      if (commit.checkpointIds.exists(_.nonEmpty)) 2 else 1,
      exported,
      others.map(operator => s"operator ${operator.id} (${operator.name})") ++ logs
    )
  }

  /** What other operators of ours keep, by their directories. */
  private def logs: Seq[String] = DurableFiles
    .in(query.root, conf)
    .list(query.root)
    .filter(_.isDirectory)
    .map(_.getPath.getName)
    .filter(name => name.startsWith("tailrace-") && name != "tailrace-rescale")

  private def exportOf(
      join: StoredState,
      name: String,
      take: (String, DataFrame) => Long
  ): ExportedJoin = {
    val settings = join.bound.settings
    val columns = StateColumns.of(join.bound, spark.directory(join.operator).toString)
    val shown = columns.key.zip(columns.rightKeys).filter(_._1.name != JoinCheckpoint.Part)
    val state = session.read
      .format("tailrace-state")
      .option("operator", join.operator)
      .option("version", version)
      .load(checkpoint)
    val right = shown.map { case (key, rightName) => col("key").getField(key.name).as(rightName) } ++
      columns.right.map(column => col("right").getField(column.name).as(column.name))
    val isEager =
      settings.get(TailraceConf.JoinStrategy.key).contains("eager") && settings.get("how").contains("left")
    val stored = new StoredTables(join, columns)
    import stored.facts
    val behind =
      Option.when(facts.hasLateRows && columns.part.isEmpty) {
        ReadRows.freeName("_behind", columns.rightKeys ++ columns.right.map(_.name))
      }
    val left = state.where("side = 'left'").select("left.*")
    val rights = behind.fold(state.where("side = 'right'").select(right: _*): DataFrame)(stored.rights)
    val matched = Option.when(isEager)(stored.matches)
    val tables = Map("left" -> left, "right" -> rights) ++ matched.map("matches" -> _) ++
      Option.when(facts.hasEmitted)("emitted" -> stored.emitted)
    val lost = tables.values.flatMap(_.schema).filterNot(column => SparkPlans.isOfParquet(column.dataType))
    if (lost.nonEmpty)
      throw ExchangeErrors.types(join.operator, lost.map(c => s"${c.name} ${c.dataType.sql}").toSeq.distinct)
    // With hot keys there is no import.
    val missed = matched.filter(_ => columns.part.isEmpty).fold(0L) {
      MissedMatches.count(left, rights, _, columns, settings, spark.commit(completed).watermarkMs)
    }
    val directory = s"operator-${join.operator}"
    val rows = tables.map { case (table, frame) =>
      session.sparkContext.setJobDescription(
        s"export $table rows of operator ${join.operator} of $checkpoint"
      )
      try table -> take(s"$directory/$table", frame)
      finally session.sparkContext.setJobDescription(null)
    }
    val beside =
      ExportedState(facts.expiredThrough, facts.operatorTime, facts.amendsAfter, behind, missed)
    ExportedJoin(join.operator, name, directory, settings, rows, state = Some(beside))
  }

  private def write(table: String, rows: DataFrame): Long = {
    val path = new Path(to, table).toString
    rows.write.parquet(path)
    // Of the footers.
    LiteralPath.reader(session.read).schema(rows.schema).parquet(path).count()
  }

  /** What isn't in the rows that wait: each task reads a partition's state on its own. */
  private final class StoredTables(join: StoredState, columns: StateColumns) {
    private val layout = query.holding(join)
    private val set = query.setOf(join, layout)
    private val state = query.state(join, set, set)
    private val hadoopConf = new SerializableConfiguration(conf)
    private val rightColumns = StructType(
      columns.key.zip(columns.rightKeys).map { case (key, rightName) => key.copy(name = rightName) } ++
        columns.right
    )

    val facts: StateFacts = StateFacts.read(state, conf)

    def matches: DataFrame = {
      val (of, columnsOf, readable) = (state, columns, hadoopConf)
      frame(MatchedRows.schema(columns.left, rightColumns)) { partition =>
        new MatchedRows(of, columnsOf, partition, readable.value).iterator
      }
    }

    /** @param behind name of the last column */
    def rights(behind: String): DataFrame = {
      val (of, columnsOf, readable) = (state, columns, hadoopConf)
      val (after, grown) =
        (JoinCheckpoint.duration(join.bound.settings, JoinCheckpoint.After).get, join.bound.grown)
      frame(rightColumns.add(behind, TimestampType)) { partition =>
        new StoredRows(of, columnsOf, partition, readable.value).rights(after, grown)
      }
    }

    def emitted: DataFrame = {
      val (of, columnsOf, readable) = (state, columns, hadoopConf)
      frame(SparkPlans.nullable(columns.left).asInstanceOf[StructType]) { partition =>
        new StoredRows(of, columnsOf, partition, readable.value).emitted
      }
    }

    private def frame(schema: StructType)(rows: Int => Iterator[InternalRow]): DataFrame = {
      val all = session.sparkContext
        .parallelize(0 until layout.partitions, layout.partitions)
        .flatMap(partition => rows(partition))
      SparkPlans.frameOf(session, all, schema)
    }
  }
}
