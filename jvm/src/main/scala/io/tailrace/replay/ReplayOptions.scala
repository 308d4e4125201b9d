package io.tailrace.replay

import io.tailrace.common.{Arguments, CallDocument, Policy, ProgressName, TimeSpan}

/** [[ReplayOptions]] after their check. */
final case class ReplaySettings(
    name: String,
    disorder: Int = 0,
    marksReplays: Boolean = false,
    forgetAfterMs: Option[Long] = None
) {

  /** The name of the filter's counts in `observedMetrics`. */
  def progressName: String = ProgressName("replays", name, ReplayOptions.Name)

  /** Origins that were last seen before the returned time are forgotten.
    *
    * @param clockMs the time now; `Long.MinValue` if it is unknown
    */
  def forgottenBefore(clockMs: Long): Long =
    forgetAfterMs.filter(clockMs >= Long.MinValue + _).fold(Long.MinValue)(clockMs - _)

  /** A copy of the marks before a batch, for those after it. Origins that were forgotten a batch ago need not
    * be kept: no task looks for them any more.
    */
  private[replay] def next(marks: MarkTable): MarkTable = marks.since(forgottenBefore(marks.newestMs))
}

/** The arguments of [[io.tailrace.api.Tailrace.filterReplays]] besides the DataFrame. Names and defaults are
  * those of Python.
  *
  * @param metadata one binary column of `stream_metadata`'s bytes; or three, of a producer id (bigint), a
  *                 source partition (int) and a source offset (bigint)
  * @param order    the columns of the topic and the partition that a record was read from, then of its offset
  *                 there
  * @param disorder the greatest distance, in offsets, of a record below the greatest offset at which it is still
  *                 told from its replay
  * @param onReplay "drop" or "mark": the treatment of replays
  * @param name     the name of the filter in the checkpoint and in the query's progress
  * @param forgetAfter a duration; an origin without a record for longer than this is forgotten
  * @param eventTime   the timestamp column that says when a record came; none: the time of its batch
  */
final case class ReplayOptions(
    metadata: Seq[String] = Seq("key"),
    order: Seq[String] = Seq("topic", "partition", "offset"),
    disorder: Int = 0,
    onReplay: String = "drop",
    name: String = ReplayOptions.Name,
    forgetAfter: Option[TimeSpan] = None,
    eventTime: Option[String] = None
) {
  import ReplayOptions._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: ReplaySettings = {
    if (order.size < 2) throw arguments.invalid("order", order.mkString(", "), "two columns or more")
    eventTime.filter(_ => forgetAfter.isEmpty).foreach { column =>
      throw arguments.needs("event_time", column, "forget_after, for instance forget_after='30 days'")
    }
    ReplaySettings(
      arguments.name(name),
      arguments.number("disorder", disorder.toLong, least = 0, MostDisorder).toInt,
      arguments.choice("on_replay", onReplay, Policy.onReplay) == Policy.Mark,
      forgetAfter.map(arguments.millis("forget_after", _))
    )
  }
}

object ReplayOptions {

  private[tailrace] def of(document: CallDocument): ReplayOptions = ReplayOptions(
    metadata = document("metadata").texts,
    order = document("order").texts,
    disorder = document("disorder").int,
    onReplay = document("on_replay").text,
    name = document("name").text,
    forgetAfter = document.get("forget_after").map(_.duration),
    eventTime = document.get("event_time").map(_.text)
  )

  private[tailrace] val arguments = new Arguments("tailrace.filter_replays")
  private[replay] val Name = "replays"

  /** The most offsets of disorder. Each costs one bit for each origin. */
  private val MostDisorder = 4096L
}
