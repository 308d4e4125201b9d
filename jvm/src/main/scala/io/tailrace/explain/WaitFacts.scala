package io.tailrace.explain

import io.tailrace.common.Side

/** The known facts about the watermark of a query, and about the inputs that hold it back. Times are event times in
  * microseconds.
  *
  * @param now           none: there is none yet
  * @param takesGreatest whether it is that of the furthest stream: Spark's policy `max`
  * @param streams       that Spark computes it from. Empty: unknown
  * @param sides         an assumption: the newest row that the state has of each side
  * @param sources       those of `tailrace.accurate_watermark`
  */
final case class WatermarkFacts(
    now: Option[Long],
    takesGreatest: Boolean = false,
    streams: Seq[StreamFacts] = Nil,
    sides: Seq[StreamFacts] = Nil,
    sources: Seq[SourceFacts] = Nil
)

/** @param name the column of a stream's event time, or a side of a join
  * @param time its watermark, or its newest row; none: no row has come
  */
final case class StreamFacts(name: String, time: Option[Long])

/** The hosts that hold back an accurate watermark.
  *
  * @param low     their low watermark; none: too few of them have been seen
  * @param hosts   how many there are
  * @param unseen  names of those of which no row has come, at most a few, and how many there are
  * @param slowest the slowest hosts of which rows have come, at most a few, the slowest first
  * @param server  whether a watermark server decides; none: unknown
  * @param said    the server's warnings in its last answer
  * @param holders the other queries that hold back the low watermark, as the server names them
  */
final case class SourceFacts(
    name: String,
    low: Option[Long],
    hosts: Int,
    unseen: (Seq[String], Int),
    slowest: Seq[(String, Long)],
    server: Option[Boolean] = None,
    said: Seq[String] = Nil,
    holders: Seq[String] = Nil
)

/** The known facts about the buffered rows of a join. */
sealed trait JoinFacts {

  /** The row that is emitted next; of pairs, the one that is given up next. */
  def next: Option[NextRow]

  /** True if they explain why nothing is emitted. */
  def isReason: Boolean
}

/** The buffered row that is emitted next.
  *
  * @param time      its event time
  * @param isBound   whether the row may be newer than `time`
  * @param partition of the state
  * @param key       its key in words; none: unknown
  * @param needs     the watermark at which it is emitted, or the time that a synced join's right side must reach.
  *                  None: unknown
  * @param atMostMore the part of a release step that may be missing beyond that; 0 if `needs` is exact
  */
final case class NextRow(
    time: Long,
    isBound: Boolean,
    partition: Int,
    key: Option[String],
    needs: Option[Long],
    atMostMore: Long = 0
)

/** Rows of `tailrace.join`.
  *
  * @param isGrouped whether a row is emitted for each left row, when its window has closed; otherwise pairs at once
  * @param watermark of the join, which operators before it may hold back; none: there is none yet
  * @param left      buffered rows; none: unknown
  * @param right     the same
  * @param next      the next row to be emitted; of pairs, the next one that is given up
  * @param late      late rows of the last batch, left and right
  * @param streams   those of the labels of examples; of another join none
  * @param idleTimeoutMs idle time of the query after which rows are flushed; none: unknown, or never
  * @param closedThrough left rows up to this time have been emitted that way, before the watermark
  */
final case class LabelFacts(
    isGrouped: Boolean,
    after: Long,
    watermark: Option[Long],
    left: Option[Long],
    right: Option[Long],
    next: Option[NextRow],
    late: (Long, Long) = (0, 0),
    streams: Seq[LabelStreamFacts] = Nil,
    idleTimeoutMs: Option[Long] = None,
    closedThrough: Option[Long] = None
) extends JoinFacts {
  override def isReason: Boolean =
    if (isGrouped) next.forall(_.needs.exists(needs => watermark.forall(_ < needs + next.get.atMostMore)))
    else left.contains(0L) || right.contains(0L)
}

/** The stream of one or several labels, of features, or of a side of a join.
  *
  * @param labels    names, for the query's progress
  * @param readTo    its watermark, in microseconds; none: no row of it has arrived since the query started
  * @param idleMs  for how long it has had no rows, while others had rows
  * @param isStalled whether that is too long, and the others are ahead of it
  * @param onStall   the policy
  */
final case class LabelStreamFacts(
    labels: Seq[String],
    readTo: Option[Long],
    idleMs: Long,
    isStalled: Boolean,
    onStall: String,
    stallAfterMs: Long,
    kind: StreamKind = StreamKind.Label
)

/** The role of a stream, to the user.
  *
  * @param words   followed by its names: "label buy"
  * @param waiting the rows that it holds back
  * @param stalled the condition of such a stream that stalls, in the log and in errors
  */
sealed abstract class StreamKind(val words: String, val waiting: String, val stalled: String)
    extends Serializable

object StreamKind {
  private val OfExamples = "TAILRACE_EXAMPLES_STALLED"

  case object Label extends StreamKind("label", "all examples", OfExamples)
  case object Features extends StreamKind("features", "all examples", OfExamples)
  case object JoinSide extends StreamKind("side", "all rows of the join", "TAILRACE_JOIN_STALLED")
}

/** Rows of `tailrace.sync_join`.
  *
  * @param released left rows before this time have been emitted; none: nothing is released yet
  * @param sides    the right one first
  * @param ofSeveral names of the joins whose progress this may be, if the checkpoint doesn't say which
  */
final case class SyncFacts(
    released: Option[Long],
    left: Long,
    right: Long,
    next: Option[NextRow],
    sides: Seq[SyncSideFacts],
    ofSeveral: Seq[String] = Nil
) extends JoinFacts {

  /** The time up to which all right partitions have been read. */
  def rightReadTo: Option[Long] = sides.find(_.side == Side.Right).flatMap(_.readTo)

  override def isReason: Boolean = next.forall(_.needs.exists(needs => rightReadTo.forall(_ < needs)))
}

/** A side of a synced join.
  *
  * @param readTo   all partitions that count have been read up to this time
  * @param holder   the partition that it waits for; none: no partition counts
  * @param excluded partitions that it doesn't wait for
  * @param onStall  the policy; none: unknown, the checkpoint doesn't have it
  */
final case class SyncSideFacts(
    side: Side,
    readTo: Option[Long],
    holder: Option[HolderFacts],
    excluded: Seq[String],
    onStall: Option[String],
    stallAfterMs: Option[Long]
)

/** A partition that a side waits for.
  *
  * @param readTo    none: no row of it has come
  * @param behind    the furthest partition of the side, in microseconds
  * @param idleMs  for how long no row has come, while others had rows
  * @param condition in words, "stalled"; none: unknown
  */
final case class HolderFacts(
    partition: String,
    readTo: Option[Long],
    behind: Option[Long],
    idleMs: Long,
    condition: Option[String]
)
