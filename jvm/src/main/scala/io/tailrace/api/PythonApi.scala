package io.tailrace.api

import scala.jdk.CollectionConverters._

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.{Column, DataFrame, Dataset, SparkSession}

import io.tailrace.common.Arguments
import io.tailrace.label.JoinOptions
import io.tailrace.plan.Columns
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.testing.{CheckpointFaults, ReadableRows, TestStreams}
import io.tailrace.watermark.WatermarkOptions
import io.tailrace.windows.WindowOptions

/** The one object that Python calls. Java types only; no defaults, no overloads.
  *
  * `options` have the names of Python's arguments. An option that may be left out is absent then.
  */
object PythonApi
    extends PythonStateCalls
    with PythonReportCalls
    with PythonExampleCalls
    with PythonRecursionCalls {

  /** The name of a column that a user gave as a Column.
    *
    * @param argument which gave it
    */
  def columnName(call: String, argument: String, frame: Dataset[_], column: Column): String =
    Columns.nameOf(
      call,
      argument,
      column.toString,
      SparkPlans.analyzed(frame),
      SparkPlans.analyzed(frame.select(column))
    )

  def join(
      left: Dataset[_],
      right: Dataset[_],
      onLeft: java.util.List[String],
      onRight: java.util.List[String],
      hot: java.util.List[java.util.List[Column]],
      horizons: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.join", options)
    Tailrace.join(
      left,
      right,
      pairs(onLeft, onRight),
      JoinOptions(
        leftTime = chosen("left_time"),
        rightTime = chosen("right_time"),
        after = chosen("after"),
        before = chosen("before"),
        how = chosen("how"),
        into = chosen("into"),
        `match` = chosen("match"),
        maxMatches = chosen.int("max_matches"),
        onLate = chosen("on_late"),
        lateLabels = chosen.get("late_labels").map(_.toBoolean),
        releaseEvery = chosen.get("release_every"),
        closeAfter = chosen.get("close_after"),
        horizons = horizons.asScala.toSeq,
        emit = chosen("emit"),
        early = chosen.get("early"),
        release = chosen("release"),
        exactlyOne = chosen("exactly_one").toBoolean,
        amendFor = chosen.get("amend_for"),
        hot = hot.asScala.toSeq.map(_.asScala.toSeq),
        hotParts = chosen.int("hot_parts").get
      )
    )
  }

  /** @param leftPartition empty: Kafka's */
  def syncJoin(
      left: Dataset[_],
      right: Dataset[_],
      onLeft: java.util.List[String],
      onRight: java.util.List[String],
      leftPartition: java.util.List[String],
      rightPartition: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.sync_join", options)
    Tailrace.syncJoin(
      left,
      right,
      pairs(onLeft, onRight),
      SyncOptions(
        leftTime = chosen("left_time"),
        rightTime = chosen("right_time"),
        window = chosen("window"),
        syncDelay = chosen("sync_delay"),
        leftPartition = leftPartition.asScala.toSeq,
        rightPartition = rightPartition.asScala.toSeq,
        onStall = chosen("on_stall"),
        stallAfter = chosen.get("stall_after"),
        onDuplicate = chosen("on_duplicate"),
        onUnmatchedRight = chosen("on_unmatched_right"),
        maxPending = chosen.long("max_pending"),
        suffix = chosen("suffix"),
        name = chosen("name"),
        onLeftStall = chosen.get("on_left_stall"),
        futureLimit = chosen.get("future_limit"),
        onFuture = chosen("on_future"),
        exactlyOne = chosen("exactly_one").toBoolean
      )
    )
  }

  def filterReplays(
      frame: Dataset[_],
      metadata: java.util.List[String],
      order: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.filter_replays", options)
    Tailrace.filterReplays(
      frame,
      ReplayOptions(
        metadata.asScala.toSeq,
        order.asScala.toSeq,
        chosen.int("disorder").get,
        chosen("on_replay"),
        chosen("name"),
        chosen.get("forget_after"),
        chosen.get("event_time")
      )
    )
  }

  /** @param hosts the roster; null: those that have been seen */
  def accurateWatermark(
      frame: Dataset[_],
      eventTime: String,
      host: String,
      hosts: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.accurate_watermark", options)
    Tailrace.accurateWatermark(frame, eventTime, host, watermarkOptions(hosts, chosen))
  }

  private def watermarkOptions(hosts: java.util.List[String], chosen: Chosen): WatermarkOptions =
    WatermarkOptions(
      completeness = chosen("completeness"),
      hosts = Option(hosts).map(_.asScala.toSeq),
      idleAfter = chosen.get("idle_after"),
      futureLimit = chosen.get("future_limit"),
      onFuture = chosen("on_future"),
      delay = chosen("delay"),
      server = chosen.get("server"),
      app = chosen.get("app"),
      operator = chosen("operator"),
      token = chosen.get("token"),
      logs = chosen.get("logs"),
      name = chosen("name")
    )

  def stampWatermark(frame: Dataset[_], into: String): DataFrame = Tailrace.stampWatermark(frame, into)

  /** @param partitions the roster; null: those that have been seen */
  def stampedWatermark(
      frame: Dataset[_],
      eventTime: String,
      stamp: String,
      partition: java.util.List[String],
      partitions: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.stamped_watermark", options)
    val wanted = watermarkOptions(partitions, chosen)
    Tailrace.stampedWatermark(frame, eventTime, stamp, partition.asScala.toSeq, wanted)
  }

  /** What the writer of the format `tailrace-windows` writes.
    *
    * @param upstreams the operators whose rows are written; null: the query's sources
    */
  def landedWindows(
      frame: Dataset[_],
      path: String,
      eventTime: String,
      upstreams: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.write_windows", options)
    Tailrace.landedWindows(
      frame,
      path,
      eventTime,
      WindowOptions(
        window = chosen("window"),
        offset = chosen("offset"),
        into = chosen("into"),
        missing = chosen.int("missing").get,
        targetFileSize = chosen.get("target_file_size"),
        server = chosen.get("server"),
        app = chosen.get("app"),
        operator = chosen("operator"),
        token = chosen.get("token"),
        upstreams = Option(upstreams).map(_.asScala.toSeq)
      )
    )
  }

  def windowReport(session: SparkSession, path: String): DataFrame = Tailrace.windowReport(session, path)

  /** Streams and queries of a test. @param startMs of their clock */
  def testStreams(session: SparkSession, startMs: String): TestStreams =
    new TestStreams(session, startMs.toLong)

  /** Which step of checkpoints' files fails, in a test. */
  def checkpointFaults(session: SparkSession): CheckpointFaults.type = CheckpointFaults

  /** A batch DataFrame with values that Arrow and Python have. */
  def readable(frame: DataFrame): DataFrame = ReadableRows.of(frame)

  /** Throws an error that says what is missing and what to do. */
  def checkSession(session: SparkSession): Unit = SessionCheck.check(session)

  def versions(): java.util.Map[String, String] = Map(
    "tailrace" -> SessionCheck.tailraceVersion,
    "builtForSpark" -> SessionCheck.builtForSpark,
    "spark" -> SPARK_VERSION,
    "scala" -> scala.util.Properties.versionNumberString,
    "java" -> System.getProperty("java.version")
  ).asJava
}

/** The options of a call. */
private[api] final class Chosen(call: String, options: java.util.Map[String, String]) {
  private val named = options.asScala

  def apply(name: String): String = named(name)
  def get(name: String): Option[String] = named.get(name)
  def long(name: String, most: Long = Long.MaxValue): Option[Long] =
    named.get(name).map(new Arguments(call).parsed(name, _, most))
  def int(name: String): Option[Int] = long(name, Int.MaxValue.toLong).map(_.toInt)
}
