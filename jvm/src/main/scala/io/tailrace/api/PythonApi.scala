package io.tailrace.api

import scala.jdk.CollectionConverters._

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.{DataFrame, Dataset, Row, SparkSession}

import io.tailrace.common.Errors
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.{RecursionCall, RecursionErrors, RecursionOptions}
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.watermark.WatermarkOptions
import io.tailrace.windows.WindowOptions

/** The one object that Python calls. Java types only; no defaults, no overloads. */
object PythonApi {

  /** @param options by the names of [[JoinOptions]]; `match` for `matching`; what is absent has its default */
  def join(
      left: Dataset[_],
      right: Dataset[_],
      onLeft: java.util.List[String],
      onRight: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val named = options.asScala
    val maxMatches = named.get("maxMatches").map { text =>
      text.toIntOption.getOrElse(
        throw Errors.optionInvalid("max_matches", text, s"a whole number of at most ${Int.MaxValue}")
      )
    }
    Tailrace.join(
      left,
      right,
      onLeft.asScala.toSeq.zip(onRight.asScala),
      JoinOptions(
        leftTime = named("leftTime"),
        rightTime = named("rightTime"),
        after = named("after"),
        before = named("before"),
        how = named("how"),
        into = named("into"),
        matching = named("match"),
        maxMatches = maxMatches,
        late = named("late")
      )
    )
  }

  /** @param leftPartition empty: Kafka's
    * @param options       by the names of [[SyncOptions]]; what is absent has its default
    */
  def syncJoin(
      left: Dataset[_],
      right: Dataset[_],
      onLeft: java.util.List[String],
      onRight: java.util.List[String],
      leftPartition: java.util.List[String],
      rightPartition: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val named = options.asScala
    val maxPending = named.get("maxPending").map { text =>
      text.toLongOption.getOrElse(
        throw Errors.optionInvalid("max_pending", text, s"a whole number of at most ${Long.MaxValue}")
      )
    }
    Tailrace.syncJoin(
      left,
      right,
      onLeft.asScala.toSeq.zip(onRight.asScala),
      SyncOptions(
        leftTime = named("leftTime"),
        rightTime = named("rightTime"),
        window = named("window"),
        syncDelay = named("syncDelay"),
        leftPartition = leftPartition.asScala.toSeq,
        rightPartition = rightPartition.asScala.toSeq,
        onStall = named("onStall"),
        stallAfter = named.get("stallAfter"),
        duplicates = named("duplicates"),
        unmatchedRight = named("unmatchedRight"),
        maxPending = maxPending,
        suffix = named("suffix"),
        name = named("name"),
        leftOnStall = named.get("leftOnStall"),
        futureLimit = named.get("futureLimit"),
        onFuture = named("onFuture")
      )
    )
  }

  /** @param options by the names of [[ReplayOptions]] */
  def filterReplays(
      frame: Dataset[_],
      metadata: java.util.List[String],
      order: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame =
    Tailrace.filterReplays(
      frame,
      ReplayOptions(
        metadata.asScala.toSeq,
        order.asScala.toSeq,
        options
          .get("disorder")
          .toIntOption
          .getOrElse(
            throw Errors.replayOptionInvalid("disorder", options.get("disorder"), "a whole number")
          ),
        options.get("onReplay"),
        options.get("name"),
        Option(options.get("forgetAfter")),
        Option(options.get("eventTime"))
      )
    )

  /** @param options by the names of [[WatermarkOptions]]; what is absent has its default
    * @param hosts   the roster; null: those that have been seen
    */
  def accurateWatermark(
      frame: Dataset[_],
      eventTime: String,
      host: String,
      hosts: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = Tailrace.accurateWatermark(frame, eventTime, host, watermarkOptions(hosts, options))

  private def watermarkOptions(
      hosts: java.util.List[String],
      options: java.util.Map[String, String]
  ): WatermarkOptions = {
    val named = options.asScala
    val defaults = WatermarkOptions()
    WatermarkOptions(
      completeness = named("completeness"),
      hosts = Option(hosts).map(_.asScala.toSeq),
      idleAfter = named.get("idleAfter"),
      futureLimit = named.get("futureLimit"),
      onFuture = named.getOrElse("onFuture", defaults.onFuture),
      delay = named("delay"),
      server = named.get("server"),
      app = named.get("app"),
      operator = named("operator"),
      token = named.get("token"),
      name = named("name")
    )
  }

  def stampWatermark(frame: Dataset[_], into: String): DataFrame = Tailrace.stampWatermark(frame, into)

  /** @param partitions the roster; null: those that have been seen
    * @param options    by the names of [[WatermarkOptions]], but for what is of hosts alone
    */
  def stampedWatermark(
      frame: Dataset[_],
      eventTime: String,
      stamp: String,
      partition: java.util.List[String],
      partitions: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame =
    Tailrace.stampedWatermark(
      frame,
      eventTime,
      stamp,
      partition.asScala.toSeq,
      watermarkOptions(partitions, options)
    )

  /** @param upstreams the operators whose rows are written; null: the query's sources
    * @param options   by the names of [[WindowOptions]]; what is absent has its default
    */
  def writeWindows(
      frame: Dataset[_],
      path: String,
      eventTime: String,
      upstreams: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataStreamWriter[Row] = {
    val named = options.asScala
    val missing = named("missing")
    Tailrace.writeWindows(
      frame,
      path,
      eventTime,
      WindowOptions(
        window = named("window"),
        offset = named("offset"),
        into = named("into"),
        missing = missing.toIntOption
          .getOrElse(throw Errors.watermarkOptionInvalid("missing", missing, "a whole number")),
        server = named.get("server"),
        app = named.get("app"),
        operator = named("operator"),
        token = named.get("token"),
        upstreams = Option(upstreams).map(_.asScala.toSeq)
      )
    )
  }

  def windowReport(session: SparkSession, path: String): DataFrame = Tailrace.windowReport(session, path)

  /** Begins a recursion: op is called in between.
    *
    * @param pathColumns empty: paths are not kept
    * @param options     by the names of [[RecursionOptions]]; what is absent has its default
    */
  def beginRecursion(
      frame: Dataset[_],
      pathColumns: java.util.List[String],
      options: java.util.Map[String, String]
  ): RecursionCall = {
    val named = options.asScala
    def number(argument: String, text: String): Long =
      text.toLongOption.getOrElse(throw RecursionErrors.optionInvalid(argument, text, "a whole number"))
    def depth(text: String): Int = Math.min(Int.MaxValue.toLong, number("max_depth", text)).toInt
    Tailrace.beginRecursion(
      frame,
      RecursionOptions(
        maxDepth = named.get("maxDepth").map(depth),
        maxRows = named.get("maxRows").map(number("max_rows", _)),
        onLimit = named("onLimit"),
        depthColumn = named.get("depthColumn"),
        pathColumns = pathColumns.asScala.toSeq,
        onCycle = named("onCycle"),
        mode = named("mode"),
        name = named("name")
      )
    )
  }

  /** Throws an error that says what is missing and what to do. */
  def checkSession(session: SparkSession): Unit =
    SessionCheck.check(session.asInstanceOf[org.apache.spark.sql.classic.SparkSession])

  def versions(): java.util.Map[String, String] = Map(
    "tailrace" -> SessionCheck.tailraceVersion,
    "builtForSpark" -> SessionCheck.builtForSpark,
    "spark" -> SPARK_VERSION,
    "scala" -> scala.util.Properties.versionNumberString,
    "java" -> System.getProperty("java.version")
  ).asJava
}
