package io.tailrace.ops.exchange

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{col, unix_micros}
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.WatermarkRules.{behind, ofMillis, saturatingAdd}
import io.tailrace.common.{LiteralPath, OnFailure, TailraceConf}
import io.tailrace.join.{Growth, JoinCheckpoint}
import io.tailrace.ops.inspect.{StateColumns, StateDecoder}
import io.tailrace.ops.rewrite._
import io.tailrace.state._

/** Writes the buffered rows of a checkpoint's joins as Parquet, with the columns of the user's streams. The query must
  * not run. The checkpoint isn't changed.
  *
  * {{{
  *   operator-0/left       the buffered left rows, with all of their columns
  *   operator-0/right      right rows: the columns of `on` by the right side's names, then the others. If some were
  *                         late, a last column has the watermark at which a row was late
  *   operator-0/matches    with eager matching: left and right row of each match so far
  *   operator-0/emitted    the remains of left rows that were emitted and may be amended
  *   sources               logs of sources in the checkpoint
  *   _tailrace_export.json the description, written last
  * }}}
  */
private[tailrace] final class Export(session: SparkSession, checkpoint: String, directory: String) {
  private val query = new StoppedQuery(session, checkpoint, "an export")
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

  /** @param take receives the rows of a table and its name below the directory, and returns the number of rows */
  private def report(take: (String, DataFrame) => Long): ExportReport = {
    val (own, others) = query.operators
    val joins = own.map(query.stored)
    val exported = joins.zip(own.map(_.name)).map { case (join, name) => exportOf(join, name, take) }
    // A query that ran meanwhile deletes versions, and the job ends with an error then. One that has begun a batch
    // does no harm: the rows are those of one version.
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

  /** The state of Tailrace's other operators, by their directories. */
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
    // Which right rows have matched is in no column: an import would emit them as orphans.
    if (settings.contains(JoinCheckpoint.Orphans)) throw ExchangeErrors.unsupported(Seq("orphans"))
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
      Option.when(facts.lateRows.nonEmpty && columns.part.isEmpty) {
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
    // With salted keys there is no import.
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
      ExportedState(
        facts.expiredThrough,
        facts.operatorTime,
        facts.amendsAfter,
        behind,
        missed,
        facts.balance
      )
    ExportedJoin(join.operator, name, directory, settings, rows, state = Some(beside))
  }

  private def write(table: String, rows: DataFrame): Long = {
    val path = new Path(to, table).toString
    rows.write.parquet(path)
    // Read from the footers.
    LiteralPath.reader(session.read).schema(rows.schema).parquet(path).count()
  }

  /** The facts that aren't in the buffered rows: each task reads a partition's state on its own. */
  private final class StoredTables(join: StoredState, columns: StateColumns) {
    private val state = query.state(join)
    private val partitions = state.before.layout.partitions
    private val hadoopConf = new SerializableConfiguration(conf)
    private val rightColumns = StructType(
      columns.key.zip(columns.rightKeys).map { case (key, rightName) => key.copy(name = rightName) } ++
        columns.right
    )

    val facts = new StateFacts(state.manifests(conf))

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
        .parallelize(0 until partitions, partitions)
        .flatMap(partition => rows(partition))
      SparkPlans.frameOf(session, all, schema)
    }
  }
}

/** The directory of an export, which one command alone fills: two at once would both write all rows.
  *
  * {{{
  *   _tailrace_export.begun   written first, by a write that only one writer can do
  *   operator-0/...
  *   _tailrace_export.json    the export is complete
  *                            and the first file is deleted
  * }}}
  */
private[exchange] final class ExportDirectory(path: Path, conf: Configuration) {
  private val files = DurableFiles.in(path, conf)
  private val begun = new Path(path, "_tailrace_export.begun")
  private def name = path.toString

  def checkFree(): Unit = SparkCheckpoint.readable(name) {
    if (files.list(path).nonEmpty) throw RewriteErrors.destinationExists(name)
  }

  /** Runs code that writes the files. If it fails, none of them are left. */
  def fill[T](write: => T): T = SparkCheckpoint.naming {
    checkFree()
    val isNew = !files.exists(path)
    def orNothing[A](body: => A): A = OnFailure {
      if (isNew) files.delete(path) else files.list(path).foreach(of => files.delete(of.getPath))
    }(body)
    val isOwn = orNothing {
      try {
        files.create(begun)(_.write("not complete as long as this file is there alone\n".getBytes(UTF_8)))
        true
      } catch { case _: FileAlreadyExistsException => false }
    }
    if (!isOwn) throw RewriteErrors.destinationExists(name)
    orNothing {
      val written = write
      files.delete(begun)
      written
    }
  }(RewriteErrors.failed(name, _))
}

/** The matches that eager matching has found for buffered left rows, in a task: with the left row, and the right row as
  * it arrived, which may no longer be in the state otherwise.
  */
private[exchange] final class MatchedRows(
    join: JoinState,
    columns: StateColumns,
    partition: Int,
    conf: Configuration
) {
  private val opened = new PartitionState(join, partition, conf)
  import opened.state

  private lazy val rights = RowNumbers.of(state, StoreKind.RightKeySorted)((_, _) => true)

  def iterator: Iterator[InternalRow] = {
    val number = partition
    val matches = new MatchesOfLefts(state)
    TaskContext.get().addTaskCompletionListener[Unit](_ => matches.close())
    val decoder = new StateDecoder(columns)
    val right = UnsafeProjection.create((columns.key ++ columns.right).map(_.dataType).toArray[DataType])
    new Iterator[InternalRow] {
      override def hasNext: Boolean = !matches.isEmpty
      override def next(): InternalRow = {
        val (of, joined, whole) = (matches.sections.head, matches.joined, matches.left)
        val seq = MatchKey.rightSeq(joined.base, joined.at)
        val value = decoder.right(of, joined)
        val row = new GenericInternalRow(
          Array[Any](
            number,
            seq,
            rights.has(seq),
            decoder.left(of, whole).copy(),
            right(new JoinedRow(decoder.key(of, whole), value))
          )
        )
        matches.drop()
        row.copy()
      }
    }
  }
}

private[exchange] object MatchedRows {

  /** @param right its columns, those of the key first */
  def schema(left: StructType, right: StructType): StructType = new StructType()
    .add("partition", IntegerType, nullable = false)
    .add("right_seq", LongType, nullable = false)
    .add("right_in_state", BooleanType, nullable = false)
    .add("left", left)
    .add("right", right)
}

/** Pairs in one window that eager matching hasn't made, because the right row arrived after the window of the left one
  * had closed, but before its release step. The state doesn't have the arrival times of right rows, so matching the rows
  * again, as an import does, would make these pairs.
  */
private[exchange] object MissedMatches {

  /** @param left        the buffered left rows; `right` and `matches` are the other tables of the export
    * @param watermarkMs of the next batch
    */
  def count(
      left: DataFrame,
      right: DataFrame,
      matches: DataFrame,
      columns: StateColumns,
      settings: Map[String, String],
      watermarkMs: Long
  ): Long = {
    def duration(name: String) = JoinCheckpoint.duration(settings, name).get
    def at(side: String, name: String): Column = col(s"$side.${quoteIdentifier(name)}")
    def micros(side: String, time: String): Column = unix_micros(at(side, settings(time)))
    val (before, after) = (duration(JoinCheckpoint.Before), duration(JoinCheckpoint.After))
    // Those of later left rows can't be missing.
    val closed = behind(ofMillis(Some(watermarkMs)), after)
    val lefts = left.as("l").where(micros("l", JoinCheckpoint.LeftTime) <= closed)
    val gone = matches.where("NOT right_in_state").dropDuplicates("partition", "right_seq").select("right.*")
    val rights = right.unionByName(gone).as("r")
    val distance = micros("r", JoinCheckpoint.RightTime) - micros("l", JoinCheckpoint.LeftTime)
    val isMatch = columns.key
      .map(_.name)
      .zip(columns.rightKeys)
      .map { case (leftName, rightName) => at("l", leftName) === at("r", rightName) }
      .reduce(_ && _) && distance >= saturatingAdd(0L, -before) && distance <= after
    val made =
      matches.where(unix_micros(col(s"left.${quoteIdentifier(settings(JoinCheckpoint.LeftTime))}")) <= closed)
    lefts.join(rights, isMatch).count() - made.count()
  }
}

/** A partition's state that a task of an export reads, until the task ends. */
private[exchange] final class PartitionState(join: JoinState, partition: Int, conf: Configuration) {
  private val outside = join.open(partition, conf)
  // Listeners run in reverse order: cursors are closed before it.
  TaskContext.get().addTaskCompletionListener[Unit](_ => outside.close())

  def state: LoadedState = outside.state

  /** The rows of a store that count, section by section.
    *
    * @param after rows up to this time are left out
    * @param row   returns a copy
    */
  def rows(kind: StoreKind, after: Long = Long.MinValue)(
      row: (LiveSection, RunCursor) => InternalRow
  ): Iterator[InternalRow] = {
    val rule = LivingRows.of(state).in(kind).after(after)
    val sections = state.sections.filter(_.section.kind == kind)
    LiveSection.prepare(sections)
    sections.iterator.flatMap { live =>
      val cursor = rule.cursor(live)
      TaskContext.get().addTaskCompletionListener[Unit](_ => cursor.close())
      Iterator
        .continually(cursor.isValid)
        .takeWhile { isValid =>
          if (!isValid) cursor.close()
          isValid
        }
        .map { _ =>
          val taken = row(live, cursor.row)
          cursor.next()
          taken
        }
    }
  }
}

/** Rows of a label join that an export has in addition to the buffered rows, in a task. */
private[exchange] final class StoredRows(
    join: JoinState,
    columns: StateColumns,
    partition: Int,
    conf: Configuration
) {
  private val opened = new PartitionState(join, partition, conf)
  private val decoder = new StateDecoder(columns)
  private val manifest: Manifest = opened.state.manifest

  /** The right rows, with the columns of the key first, and in the last column the watermark at which one was late.
    *
    * @param after of the join's window
    * @param grown earlier windows. Under a longer one, the row was late for left rows that are older by the difference.
    *              So is a row that was later by the same amount under the current window
    */
  def rights(after: Long, grown: Seq[Growth]): Iterator[InternalRow] = {
    val late = new LateBatches(manifest.lateRows)
    val behind = manifest.lateRows.map { batch =>
      val (then, _) = Growth.of(batch.version - 1, grown)
      batch.watermark - Math.max(0L, then.getOrElse(after) - after)
    }.toArray
    val types = (columns.key ++ columns.right).map(_.dataType) :+ TimestampType
    val whole = UnsafeProjection.create(types.toArray[DataType])
    opened.rows(StoreKind.RightKeySorted) { (live, row) =>
      val batch = late.of(row.seq, row.time)
      val last = new GenericInternalRow(Array[Any](if (batch < 0) null else behind(batch)))
      val own = new JoinedRow(decoder.key(live, row), decoder.right(live, row))
      whole(new JoinedRow(own, last)).copy()
    }
  }

  /** The remains of the left rows that were emitted and may be amended. */
  def emitted: Iterator[InternalRow] =
    opened.rows(StoreKind.LeftOut, after = manifest.amendsAfter.getOrElse(Long.MinValue)) { (live, row) =>
      decoder.left(live, row).copy()
    }
}
