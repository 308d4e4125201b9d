package io.tailrace.api

import java.util.Properties

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession => ClassicSession}
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.{Column, DataFrame, Dataset, Row, SparkSession}

import io.tailrace.asof.{AsOfOptions, AsOfResolution}
import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{Errors, OwnNames, Side, TailraceConf, TimeSpan}
import io.tailrace.examples._
import io.tailrace.join.{JoinCheckpoint, JoinSides, WiderKeys}
import io.tailrace.label.{JoinOptions, JoinResolution, LabelJoinStrategy}
import io.tailrace.ops.erase.{Erase, EraseOptions, EraseReport}
import io.tailrace.ops.exchange._
import io.tailrace.ops.rescale.{Rescale, RescaleReport, RescaledCopy}
import io.tailrace.plan.Columns
import io.tailrace.plan.Columns.named
import io.tailrace.recursion.{RecursionCall, RecursionOptions}
import io.tailrace.replay.{ReplayOptions, ReplayResolution}
import io.tailrace.sync.{SyncOptions, SyncResolution}
import io.tailrace.tables.{TableErrors, TableOptions, TableSink}
import io.tailrace.watermark.{StampColumns, StampResolution, WatermarkOptions, WatermarkResolution}
import io.tailrace.windows.{ReportTable, WindowOptions, WindowSink, WindowsResolution}

/** Tailrace for Scala. Names and meanings are those of the Python package. */
object Tailrace {

  /** Joins each left row with the right rows of equal keys whose time is in
    * `[left time - before, left time + after]`, both ends included.
    *
    * With how = "left" each left row is emitted once, when the watermark has reached its time plus `after`, or
    * up to `releaseEvery` later.
    * Its matches are in the column `into`, an array of structs of all right columns but the keys, ordered by
    * right time. With how = "inner" each pair is emitted as soon as both rows are there. A null key matches
    * nothing. Two batch DataFrames give the same rows as two streams with the same data.
    *
    * {{{
    *   val examples = Tailrace.join(impressions, engagements, Seq("user_id" -> "user_id"),
    *     JoinOptions(leftTime = "served_at", rightTime = "engaged_at", after = "30 minutes"))
    * }}}
    *
    * @param on pairs of key columns (left, right) of orderable types: equal ones, or numeric ones of which
    *           one has all values of the other
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def join(
      left: Dataset[_],
      right: Dataset[_],
      on: Seq[(String, String)],
      options: JoinOptions
  ): DataFrame = {
    checkNames(options.call, Seq(options.into), left, right)
    joinOf(left, right, on, options)
  }

  /** The same of columns that may have names of our own, as those of a state. */
  private[api] def joinOf(
      left: Dataset[_],
      right: Dataset[_],
      on: Seq[(String, String)],
      options: JoinOptions
  ): DataFrame =
    if (options.saltedKeys.isEmpty) joinByKeys(left, right, on, options)
    else SaltedKeys.split(left, right, on, options)(joinByKeys(_, _, _, options))

  private def joinByKeys(
      left: Dataset[_],
      right: Dataset[_],
      on: Seq[(String, String)],
      options: JoinOptions
  ): DataFrame =
    planned(left) { (plan, same) =>
      new JoinResolution(plan, SparkPlans.analyzed(right), same).resolve(on, options)
    }

  /** Makes training examples: each impression once, with a column for each label, when the longest of the labels'
    * windows has closed. It is in the state once, however many labels there are.
    *
    * {{{
    *   val examples = Tailrace.examples(impressions, ExampleOptions(time = "served_at"))(
    *     clicks -> ExampleLabel("click", time = "clicked_at", on = Seq("user" -> "user"), after = "10 minutes"),
    *     orders -> ExampleLabel("buy", time = "ordered_at", on = Seq("user" -> "user"), after = "1 day"))
    * }}}
    *
    * A label's column is an array of structs, as `into` of [[join]]. All labels have a key in common. Batch
    * DataFrames give the same rows as streams with the same data. Features are added as by [[asOf]], to the rows
    * that the sample has chosen. `initial` has tables as that of [[asOf]], by the names of features.
    *
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def examples(
      impressions: Dataset[_],
      options: ExampleOptions,
      features: Seq[(Dataset[_], ExampleFeatures)] = Nil,
      initial: Map[String, Dataset[_]] = Map.empty
  )(labels: (Dataset[_], ExampleLabel)*): DataFrame = {
    val added = labels.map(_._2.name) ++ features.map(_._2.name) ++ options.sample.map(_.weight)
    checkNames(ExampleOptions.arguments.call, added, impressions +: (labels ++ features).map(_._1): _*)
    val finish = new Finish(options, labels.map(_._2), features.map(_._2))
    val joined = planned(finish.arriving(impressions, labels.map(_._1))) { (plan, same) =>
      val named = labels.map { case (of, label) => GivenLabel.of(of, label) }
      val waitedFor = features.map { case (of, one) => SparkPlans.analyzed(of) -> one }
      new ExamplesResolution(plan, named, waitedFor, same).resolve(options)
    }
    finish.of(joined)(features.foldLeft(_) { case (rows, (of, one)) =>
      asOf(rows, of, one.on, one.asOf(options), initial.get(one.name))
    })
  }

  /** Gives each left row the newest right row of its key at or before left time - `delay`, and not older than
    * `maxAge` before that; null if there is none. Both ends are included.
    *
    * A left row is emitted once, when the watermark has reached its time - `delay`. The right row is in the column
    * `into`, a struct of all right columns but the keys. A null key finds nothing. Of right rows of one time the
    * last by content is taken. Two batch DataFrames give the same rows as two streams with the same data.
    *
    * {{{
    *   val withProfiles = Tailrace.asOf(impressions, profiles, Seq("user_id" -> "user_id"),
    *     AsOfOptions(leftTime = "served_at", rightTime = "computed_at", into = "profile", maxAge = Some("7 days")))
    * }}}
    *
    * @param on      see [[join]]
    * @param initial a batch DataFrame with right rows from before the others: the first micro-batch of a checkpoint reads it
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def asOf(
      left: Dataset[_],
      right: Dataset[_],
      on: Seq[(String, String)],
      options: AsOfOptions,
      initial: Option[Dataset[_]] = None
  ): DataFrame = {
    checkNames(options.call, Seq(options.into), left, right)
    planned(left)(new AsOfResolution(_, SparkPlans.analyzed(right), initial, _).resolve(on, options))
  }

  /** Joins two streams by a unique key, each left row with at most one right row. A left row is held until
    * all right partitions have been read past it by `syncDelay`. Then it is emitted with its right row, or
    * without one. The join waits for a partition that stalls, and loses none of its matches.
    *
    * {{{
    *   val joined = Tailrace.syncJoin(bids, impressions, Seq("bid_id" -> "bid_id"),
    *     SyncOptions(leftTime = "at", rightTime = "at", window = "10 minutes", syncDelay = "5 seconds"))
    * }}}
    *
    * The result has the left columns, and the right columns without the keys: null if unmatched, with a
    * suffix if the left side has their name. If duplicates or rows ahead of the clock are emitted marked, it has
    * the column `_mark`. The output mode is append.
    *
    * @param on pairs of key columns (left, right) of orderable types: equal ones, or numeric ones of which
    *           one has all values of the other
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def syncJoin(
      left: Dataset[_],
      right: Dataset[_],
      on: Seq[(String, String)],
      options: SyncOptions
  ): DataFrame = {
    checkNames(SyncOptions.arguments.call, Nil, left, right)
    planned(left) { (plan, same) =>
      new JoinSides(SyncOptions.arguments, plan, SparkPlans.analyzed(right), same)
        .withWiderKeys(on, options.settings.rightComesOutAlone)(
          new SyncResolution(_, same).resolve(on, options)
        )
    }
  }

  /** Drops replays: records whose offset isn't above all earlier offsets of their producer and source
    * partition. This is exact over restarts, because a micro-batch's marks are written before it is
    * committed. A batch DataFrame gives the rows that a stream of the same records gives.
    *
    * {{{
    *   val records = spark.readStream.format("kafka")...load()
    *   val once = Tailrace.filterReplays(records, ReplayOptions(metadata = Seq("key")))
    * }}}
    *
    * A record without valid metadata passes, and is counted as unprotected.
    *
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def filterReplays(frame: Dataset[_], options: ReplayOptions): DataFrame = {
    checkNames(ReplayOptions.arguments.call, Nil, frame)
    planned(frame)(new ReplayResolution(_, _).resolve(options))
  }

  /** Sets the event-time watermark to the time up to which the hosts' logs have been read, except for the
    * share of hosts that may lag. Operators after it wait for the other hosts.
    *
    * {{{
    *   Tailrace.accurateWatermark(frame, "event_time", "host", WatermarkOptions(completeness = "99.9%"))
    * }}}
    *
    * Each host's log has to be read in the order of its event times. A row at exactly the watermark is on
    * time. A restart keeps the watermark. A batch DataFrame is returned as it is.
    *
    * @param eventTime a timestamp column
    * @param host      a string column that says where the row was logged
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def accurateWatermark(
      frame: Dataset[_],
      eventTime: String,
      host: String,
      options: WatermarkOptions
  ): DataFrame = {
    checkNames(WatermarkOptions.accurate.call, Nil, frame)
    planned(frame)(new WatermarkResolution(WatermarkOptions.accurate, _, _).resolve(eventTime, host, options))
  }

  /** Adds a binary column with the low watermark of the micro-batch and its completeness.
    * [[stampedWatermark]] reads it in the next system, the SQL function `parse_watermark_stamp` returns its
    * parts.
    *
    * @param frame a stream whose watermarks are all accurate ones; a batch DataFrame gets nulls
    * @param into  the name of the column
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def stampWatermark(frame: Dataset[_], into: String = "watermark"): DataFrame = {
    checkNames(WatermarkOptions.stamp.call, Seq(into), frame)
    planned(frame)(new StampResolution(_, _).resolve(into))
  }

  /** Sets the event-time watermark by the stamps of the records: the minimum of the partitions' latest stamps.
    * The completeness of the stamps is multiplied with that of `options`.
    *
    * @param eventTime the time that assigns rows to windows; the stamps only close them
    * @param stamp     a column with stamps; a record without a valid one doesn't move its partition
    * @param partition the columns with a record's partition; joined by "-" they are its name in
    *                  `options.hosts`
    */
  def stampedWatermark(
      frame: Dataset[_],
      eventTime: String,
      stamp: String,
      partition: Seq[String],
      options: WatermarkOptions
  ): DataFrame = {
    checkNames(WatermarkOptions.stamped.call, Nil, frame)
    val watermarked = planned(frame) { (plan, same) =>
      StampColumns.check(plan, stamp, partition, same)
      val prepared = StampColumns.add(frame.toDF(), stamp, partition)
      new WatermarkResolution(WatermarkOptions.stamped, SparkPlans.analyzed(prepared), same)
        .resolveStamps(eventTime, options)
    }
    watermarked.drop(StampColumns.all: _*)
  }

  /** Makes a writer that lands a stream as Parquet in a directory for each event-time window, each row once.
    * When the low watermark has reached the end of a window, its directory gets a `_SUCCESS` with a
    * completeness report. Rows of a closed window go to `_late`, those without an event time to `_untimed`. With a table
    * of Delta or Iceberg among the options, complete windows go there, each in one commit with its report.
    *
    * {{{
    *   Tailrace.writeWindows(logs, "/data/clicks", "event_time", WindowOptions(window = "1 hour"))
    *     .option("checkpointLocation", "/data/checkpoint").start()
    * }}}
    *
    * @param frame     a stream whose watermarks are all accurate ones
    * @param eventTime the timestamp column that the watermark is on
    * @return a writer, to which the user adds a checkpoint, a trigger, `partitionBy` and Parquet's options
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def writeWindows(
      frame: Dataset[_],
      path: String,
      eventTime: String,
      options: WindowOptions
  ): DataStreamWriter[Row] =
    landedWindows(frame, path, eventTime, options).writeStream
      .format(WindowSink.Format)
      .option(WindowSink.Folder, path)

  private[api] def landedWindows(
      frame: Dataset[_],
      path: String,
      eventTime: String,
      options: WindowOptions
  ): DataFrame = {
    val session = SessionCheck.check(frame.sparkSession)
    checkNames(WindowOptions.arguments.call, Nil, frame)
    val resolution = new WindowsResolution(SparkPlans.analyzed(frame), session.sessionState.conf.resolver)
    resolution.landed(session, path, eventTime, options)
  }

  /** Reads the completeness reports of the windows that [[writeWindows]] has closed, one row each.
    *
    * @param path   the folder; the table, if the format is one of tables
    * @param format of `writeWindows`
    */
  def windowReport(session: SparkSession, path: String, format: String = "parquet"): DataFrame =
    ReportTable.read(session.asInstanceOf[ClassicSession], path, format)

  /** Makes a writer that writes a stream into a Delta or Iceberg table, each row once, also if a micro-batch runs again.
    * With `keys` rows are merged: the newest version of a row replaces earlier ones.
    *
    * {{{
    *   Tailrace.writeTable(examples, "db.examples").option("checkpointLocation", "/data/checkpoint").start()
    * }}}
    *
    * @param table a name, or the path of a Delta table
    * @return a writer, to which the user adds a checkpoint, a trigger, `partitionBy` and the format's options
    * @throws io.tailrace.common.TailraceAnalysisException if an argument or the session is wrong
    */
  def writeTable(
      frame: Dataset[_],
      table: String,
      options: TableOptions = TableOptions()
  ): DataStreamWriter[Row] =
    frame.toDF().writeStream.format(TableSink.Format).options(tableOptions(frame, table, options))

  private[api] def checkedForTable(frame: Dataset[_], table: String, options: TableOptions): DataFrame = {
    tableOptions(frame, table, options): Unit
    frame.toDF()
  }

  private def tableOptions(frame: Dataset[_], table: String, options: TableOptions): Map[String, String] = {
    checkNames(TableOptions.arguments.call, Nil, frame)
    if (!frame.isStreaming) throw TableErrors.batch()
    val resolver = SparkPlans.session(frame).sessionState.conf.resolver
    options.ofWriter(table, new Columns(TableOptions.arguments, SparkPlans.analyzed(frame).output, resolver))
  }

  /** Feeds the results of an operation back to it: each result is emitted, and is given to `op` again,
    * until `op` gives none. The rows of `frame` itself aren't emitted.
    *
    * {{{
    *   val ancestors = Tailrace.recursively(nodes.select("node"), RecursionOptions()) { updates =>
    *     updates.join(parents, "node").selectExpr("parent AS node")
    *   }
    * }}}
    *
    * Without state (maps, filters, explodes, joins with tables) all rounds are in one micro-batch. With
    * state, such as a join of streams, rows go round by a log in the query's checkpoint, one iteration per
    * micro-batch, exactly once over failures.
    *
    * @param op is called once, here. Its result has the columns of its argument
    * @throws io.tailrace.common.TailraceAnalysisException if an argument, `op` or the session is wrong
    */
  def recursively(frame: Dataset[_], options: RecursionOptions)(op: DataFrame => Dataset[_]): DataFrame = {
    val call = beginRecursion(frame, options)
    call.result(op(call.argument))
  }

  /** Gives the joins of a checkpoint another number of state partitions. The query must not run: it continues with
    * the new number when it starts again. After an error it continues with either, and the call may be repeated.
    *
    * @param checkpoint the query's checkpointLocation
    * @param dryRun     only reads and counts the rows
    * @param to         a new checkpoint, which gets a copy with the new number; the old one stays as it is
    * @throws io.tailrace.common.TailraceAnalysisException if the checkpoint can't be rescaled
    * @throws io.tailrace.common.TailraceStateException if its state can't be read or written
    */
  def rescale(
      session: SparkSession,
      checkpoint: String,
      partitions: Int,
      dryRun: Boolean = false,
      to: Option[String] = None
  ): RescaleReport = SparkCheckpoint.readable(checkpoint) {
    val classic = session.asInstanceOf[ClassicSession]
    to.fold(new Rescale(classic, checkpoint, partitions, dryRun).run()) {
      new RescaledCopy(classic, checkpoint, _, partitions).run(dryRun)
    }
  }

  /** Writes the buffered rows of a checkpoint's joins as Parquet. The query must not run.
    *
    * @param directory must not exist
    * @param dryRun    only reads and counts the rows
    */
  def exportState(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      dryRun: Boolean = false
  ): ExportReport = SparkCheckpoint.readable(checkpoint) {
    new Export(session.asInstanceOf[ClassicSession], checkpoint, directory).run(dryRun)
  }

  /** Makes a checkpoint of an export, for the query that it is of. The rows may have been edited.
    *
    * @param checkpoint must not exist
    * @param dryRun     only checks and counts the rows
    */
  def importState(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      dryRun: Boolean = false
  ): ImportReport =
    new ImportOfExport(session.asInstanceOf[ClassicSession], checkpoint, directory).run(
      dryRun,
      (left, right, on, exported) => {
        import exported.settings
        def time(name: String) = settings(name)
        joinOf(
          left.withWatermark(time("left_time"), "0 seconds"),
          right.withWatermark(time("right_time"), "0 seconds"),
          on,
          JoinOptions(
            leftTime = time("left_time"),
            rightTime = time("right_time"),
            after = settings("after"),
            before = settings("before"),
            how = settings("how"),
            // The column isn't part of the state: any name will do that no left column has.
            into = if (settings("how") == "left") OwnNames.of("labels") else "labels",
            releaseEvery = settings.get("release_every").map(TimeSpan(_)),
            lateLabels = settings.get("late_labels").map(_.toBoolean),
            release = settings.getOrElse("release", "closed"),
            `match` = if (settings.contains("release")) "first" else "all",
            oneToOne = settings.contains(JoinCheckpoint.OneToOne),
            // For how long, the state doesn't say: the query will.
            amendFor = exported.state.flatMap(_.amendsAfter).map(_ => TimeSpan("1 second"))
          )
        )
      }
    )

  /** The rows of an export, for a query with other settings. What isn't given is as in the export. */
  def exportedRows(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      offsets: Seq[String] = Nil,
      watermarkMs: Option[Long] = None,
      batch: Option[Long] = None
  ): ImportOptions =
    new ImportOfExport(session.asInstanceOf[ClassicSession], checkpoint, directory)
      .options(offsets, watermarkMs, batch)

  /** Makes a checkpoint of a query that has never run, whose join begins with some rows.
    *
    * @param frame      the streaming DataFrame that will be started
    * @param checkpoint must not exist
    */
  def importState(frame: Dataset[_], checkpoint: String, options: ImportOptions): ImportReport = {
    val session = SessionCheck.check(frame.sparkSession)
    new Import(session, SparkPlans.analyzed(frame), checkpoint).run(options)
  }

  /** Erases rows of a checkpoint's joins, from all versions of the state. The query must not run: it resumes
    * without these rows. After an error it may continue with them, and the call may be repeated.
    *
    * @param checkpoint the query's checkpointLocation
    * @throws io.tailrace.common.TailraceAnalysisException if nothing can be erased so
    * @throws io.tailrace.common.TailraceStateException if the state can't be read or written, or is in use
    */
  def erase(session: SparkSession, checkpoint: String, options: EraseOptions): EraseReport =
    SparkCheckpoint.readable(checkpoint) {
      new Erase(session.asInstanceOf[ClassicSession], checkpoint, options).run()
    }

  /** Refuses names of columns that Tailrace adds itself.
    *
    * @param added columns that the arguments name
    */
  private def checkNames(call: String, added: Seq[String], frames: Dataset[_]*): Unit = {
    frames.headOption.foreach(frame => SessionCheck.check(frame.sparkSession))
    OwnNames.check(call, added ++ frames.flatMap(SparkPlans.analyzed(_).output.map(_.name)))
  }

  /** A DataFrame of the same session, which must have all that Tailrace needs.
    *
    * @param resolve takes the plan of `frame` and the session's rule for names
    */
  private def planned(frame: Dataset[_])(resolve: (LogicalPlan, Resolver) => LogicalPlan): DataFrame = {
    val session = SessionCheck.check(frame.sparkSession)
    SparkPlans.toFrame(session, resolve(SparkPlans.analyzed(frame), session.sessionState.conf.resolver))
  }

  /** @param id see [[RecursionCall]] */
  private[api] def beginRecursion(
      frame: Dataset[_],
      options: RecursionOptions,
      id: Option[Long] = None
  ): RecursionCall = {
    checkNames(RecursionOptions.arguments.call, options.depthColumn.toSeq, frame)
    new RecursionCall(frame, options, id)
  }
}

/** Splits the rows of keys that the user names over several partitions. By its key alone, all rows of one
  * would be the work of one task.
  *
  * {{{
  *   on = item_id, salted_keys = 7, salt_buckets = 3          part
  *   left   (7, 12:00) (7, 12:01) (8, 12:00)       1 0 | 0      by the row's time; 0 for other keys
  *   right  (7, 12:05) (8, 12:05)                  0 1 2 | 0    each right row of the key in all parts
  *   join on item_id and part
  * }}}
  *
  * A left row has one part, and finds all right rows of its key there.
  */
private object SaltedKeys {
  import JoinCheckpoint.Part

  /** @param on   pairs of key columns (left, right)
    * @param join of the two sides, with the part as one more key column
    */
  def split(left: Dataset[_], right: Dataset[_], on: Seq[(String, String)], options: JoinOptions)(
      join: (DataFrame, DataFrame, Seq[(String, String)]) => DataFrame
  ): DataFrame = {
    val sides = new JoinSides(
      options.arguments,
      SparkPlans.analyzed(left),
      SparkPlans.analyzed(right),
      left.sparkSession.sessionState.conf.resolver,
      options.words
    )
    val kinds = on.map { case (l, r) => comparedAs(sides, l, r) }
    sides.times(options.leftTime, options.rightTime): Unit
    check(on, kinds, options)
    val parts = options.buckets
    val byTime = pmod(xxhash64(named(options.leftTime)), lit(parts)).cast("int")
    val all = array((0 until parts).map(lit(_)): _*)
    val keys = options.saltedKeys.map(_.zip(kinds).map { case (value, kind) => lit(value).cast(kind) })
    def isSalted(key: ((String, String)) => String): Column = {
      val columns = on.zip(kinds).map { case (pair, kind) => named(key(pair)).cast(kind) }
      if (columns.size == 1) columns.head.isin(keys.flatten: _*)
      else any(keys.map(_.zip(columns).map { case (value, column) => column === value }.reduce(_ && _)))
    }
    val lefts = left.withColumn(Part, when(isSalted(_._1), byTime).otherwise(lit(0)))
    val rights = right.withColumn(Part, explode(when(isSalted(_._2), all).otherwise(array(lit(0)))))
    join(lefts, rights, on :+ (Part -> Part)).drop(Part)
  }

  /** The type in which the join compares two key columns: of both sides, so that a row is salted on both or none. */
  private def comparedAs(sides: JoinSides, l: String, r: String): DataType = {
    val one = sides.columns(Side.Left).find("on", l).dataType
    WiderKeys.common(one, sides.columns(Side.Right).find("on", r).dataType).getOrElse(one)
  }

  /** A balanced tree: Spark walks through it by recursion. */
  private def any(conditions: Seq[Column]): Column =
    if (conditions.size == 1) conditions.head
    else {
      val (some, others) = conditions.splitAt(conditions.size / 2)
      any(some) || any(others)
    }

  private def check(on: Seq[(String, String)], kinds: Seq[DataType], options: JoinOptions): Unit = {
    import options.arguments
    arguments.number("the number of keys in salted_keys", options.saltedKeys.size.toLong, least = 1, MostKeys)
    arguments.number("salt_buckets", options.buckets.toLong, least = 2, MostParts)
    options.saltedKeys.filter(_.size != on.size).foreach { values =>
      val allowed = s"one value for each key column, ${on.size}, in each of the keys"
      throw arguments.invalid("salted_keys", values.mkString(", "), allowed)
    }
    on.map(_._1).zip(kinds).zip(options.saltedKeys.transpose).foreach { case ((key, kind), values) =>
      values.find(value => !SparkPlans.isValueOf(lit(value), kind)).foreach { value =>
        throw arguments.invalid("salted_keys", value, s"values of `$key`, which is compared as ${kind.sql}")
      }
    }
    if (options.onLate != "drop") {
      val reason = "a late right row would be emitted once for each bucket"
      throw arguments.conflict("on_late", options.onLate, "salted_keys", reason)
    }
  }

  /** Each row is compared with all of them. */
  private val MostKeys = 1000L

  /** Each right row of the key is kept so many times. */
  private val MostParts = 1024L
}

/** Checks that a session has all that Tailrace's operators need. */
private[api] object SessionCheck {
  private val build: Properties = {
    val properties = new Properties
    val in = getClass.getResourceAsStream("/tailrace-build.properties")
    try properties.load(in)
    finally in.close()
    properties
  }

  def tailraceVersion: String = build.getProperty("tailrace")
  def builtForSpark: String = build.getProperty("spark")

  /** @return the session */
  def check(session: SparkSession): ClassicSession = {
    def minor(version: String) = version.split('.').take(2).mkString(".")
    if (minor(SPARK_VERSION) != minor(builtForSpark)) {
      throw Errors.sparkVersionMismatch(minor(builtForSpark), minor(SPARK_VERSION))
    }
    val classic = session.asInstanceOf[ClassicSession]
    if (!SparkPlans.hasStrategy(classic, LabelJoinStrategy)) throw Errors.extensionMissing()
    TailraceConf.checkKeys(SparkPlans.settingKeys(classic))
    classic
  }
}
