package io.tailrace.examples

import org.apache.spark.sql.Column

import io.tailrace.asof.AsOfOptions
import io.tailrace.common.{Arguments, Policy}
import io.tailrace.join.{OnStall, SideWords}
import io.tailrace.label.{Emit, JoinOptions}

/** The arguments of [[io.tailrace.api.Tailrace.examples]] that hold for all labels. Names and defaults are
  * those of Python.
  *
  * @param time         timestamp column of the impressions, with a watermark if they stream
  * @param onLate       "drop" or "mark", as in [[io.tailrace.label.JoinOptions]]
  * @param releaseEvery how long the row of an impression may wait for others when its last window has closed
  * @param name         of the counts in the query's progress
  * @param horizons     when versions of an example are emitted, and which, as in [[io.tailrace.label.JoinOptions]];
  *                     the final one is emitted when the longest of the labels' windows has closed
  * @param closeAfter   after how long without any input of the query examples that wait are emitted: a duration
  * @param amendFor     how long after its longest window has closed an example may be amended, as in
  *                     [[io.tailrace.label.JoinOptions]]
  */
final case class ExampleOptions(
    time: String,
    onLate: String = "drop",
    releaseEvery: Option[String] = None,
    sample: Option[ExampleSample] = None,
    name: String = ExampleOptions.Name,
    horizons: Seq[String] = Nil,
    emit: String = Emit.All.name,
    closeAfter: Option[String] = None,
    amendFor: Option[String] = None
) {

  /** True if a column says which rows aren't ordinary ones. */
  private[examples] def hasMarks: Boolean = onLate == Policy.Mark.name || amendFor.nonEmpty
}

/** A label: a stream of events, and which of them an impression gets.
  *
  * @param name       of its column
  * @param time       timestamp column of the label's stream, with a watermark if it streams
  * @param on         pairs of key columns (impressions, label)
  * @param where      which rows are its events, in SQL; none: all. Labels of one DataFrame read it once
  * @param since      impressions before it have null in the label's column
  * @param attribution to which of several impressions an event is credited, see [[Attribution.of]]; none: to each
  * @param `match`    as in [[io.tailrace.label.JoinOptions]], and likewise the others
  * @param onStall    "pause" or "fail": what is done if its stream gives nothing while others do
  * @param stallAfter after how long
  */
final case class ExampleLabel(
    name: String,
    time: String,
    on: Seq[(String, String)],
    after: String,
    before: String = "0 seconds",
    `match`: String = "all",
    maxMatches: Option[Int] = None,
    where: Option[String] = None,
    since: Option[Column] = None,
    attribution: Option[String] = None,
    onStall: String = "pause",
    stallAfter: Option[String] = None
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[examples] def stall: OnStall = {
    val arguments = new Arguments(call)
    // Spark's watermark is that of the slowest stream, and no stream can be excluded from it.
    val allowed = Policy.onStall.filterNot(_ == Policy.Exclude)
    if (onStall == Policy.Exclude.name) throw ExampleErrors.excludesLabel(name)
    OnStall(
      OnStall.policy(arguments, "on_stall", onStall, stallAfter, allowed),
      OnStall.afterMs(arguments, stallAfter)
    )
  }

  /** In errors. */
  private[examples] def call: String = s"tailrace.examples, label '$name'"

  /** The join of this label alone. */
  private[examples] def alone(options: ExampleOptions): JoinOptions =
    JoinOptions(
      leftTime = options.time,
      rightTime = time,
      after = after,
      before = before,
      into = name,
      `match` = `match`,
      maxMatches = maxMatches,
      onLate = options.onLate,
      releaseEvery = options.releaseEvery,
      closeAfter = options.closeAfter,
      call = call,
      words = SideWords.ofExamples("the impressions", s"label '$name'")
    )
}

/** Features of an example: the newest row of a stream at its time, see [[io.tailrace.asof.AsOfOptions]].
  *
  * @param name of their column
  * @param time timestamp column of their stream
  * @param on   pairs of key columns (impressions, features)
  */
final case class ExampleFeatures(
    name: String,
    time: String,
    on: Seq[(String, String)],
    maxAge: Option[String] = None,
    delay: String = "0 seconds"
) {
  private[tailrace] def asOf(options: ExampleOptions): AsOfOptions =
    // Late rows that are marked, and amended ones, are emitted by the join with times before its watermark.
    AsOfOptions(
      options.time,
      time,
      name,
      maxAge,
      delay,
      options.closeAfter,
      passesLate = options.hasMarks,
      call = s"tailrace.examples, features '$name'",
      words = SideWords.ofExamples("the examples", s"features '$name'")
    )
}

/** Which examples are emitted.
  *
  * @param rates  predicates over the finished row in SQL, each with the share of its rows to keep, 0 to 1. The
  *               first one that holds counts; a row for which none holds is emitted
  * @param seed   of the hash of key and time that chooses rows
  * @param weight name of a column with 1 / rate
  */
final case class ExampleSample(rates: Seq[(String, Double)], seed: Long, weight: String = "weight")

object ExampleOptions {
  private[examples] val Name = "examples"
  private[tailrace] val arguments = new Arguments("tailrace.examples")
}
