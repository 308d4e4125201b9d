package io.tailrace.replay

/** How [[Tailrace.filterReplays]] finds replays. Names and meanings are those of the Python package.
  *
  * @param metadata one binary column of `stream_metadata`'s bytes; or three, of a producer id (bigint), a source
  *                 partition (int) and a source offset (bigint)
  * @param order    the columns that records are judged by: which topic and partition they were read from, then the
  *                 offset there
  * @param disorder how far below the greatest offset, in offsets, a record may come and still be told from its replay
  * @param onReplay "drop" or "divert"
  * @param name     of the filter in the query's checkpoint
  * @param forgetAfter a duration: an origin without a record for longer than this is forgotten
  * @param eventTime   the timestamp column that says when a record came; none: the time of its batch
  */
final case class ReplayOptions(
    metadata: Seq[String] = Seq("key"),
    order: Seq[String] = Seq("topic", "partition", "offset"),
    disorder: Int = 0,
    onReplay: String = "drop",
    name: String = "replays",
    forgetAfter: Option[String] = None,
    eventTime: Option[String] = None
)
