package io.tailrace.driver

import io.tailrace.common.{Durations, EventTimes, Side}

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
  */
final case class SourceFacts(
    name: String,
    low: Option[Long],
    hosts: Int,
    unseen: (Seq[String], Int),
    slowest: Seq[(String, Long)],
    server: Option[Boolean] = None,
    said: Seq[String] = Nil
)

/** The known facts about the buffered rows of a join. */
sealed trait JoinFacts {

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

/** The stream of one or several labels.
  *
  * @param readTo    its watermark, in microseconds; none: no row of it has come since the query started
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
    stallAfterMs: Long
)

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
  * @param idleMs  for how long no row has come, while others gave rows
  * @param condition in words, "stalled"; none: unknown
  */
final case class HolderFacts(
    partition: String,
    readTo: Option[Long],
    behind: Option[Long],
    idleMs: Long,
    condition: Option[String]
)

/** Explains in sentences what holds back the rows of a join: for `tailrace why`, and for the warning of a query
  * without output.
  */
object WaitText {
  import EventTimes.iso
  import WatermarkText.counted

  def of(facts: JoinFacts): Seq[String] = facts match {
    case label: LabelFacts if label.isGrouped => grouped(label) ++ late(label)
    case label: LabelFacts => pairs(label) ++ late(label)
    case sync: SyncFacts => synced(sync)
  }

  /** The reason why a row is buffered.
    *
    * @param whose which rows it is the first of: " of this key"
    */
  def next(facts: JoinFacts, row: NextRow, whose: String = ""): String = facts match {
    case label: LabelFacts if label.isGrouped =>
      val comes = row.needs.fold("") { needs =>
        val step = s", plus at most ${Durations.text(row.atMostMore)} up to its release step"
        s" It comes out when the watermark has reached ${iso(needs)}${if (row.atMostMore > 0) step else ""}: " +
          s"${missing(label.watermark, needs, row.atMostMore, "has the row")}."
      }
      s"The next row$whose to come out is ${of(row)}.$comes"
    case label: LabelFacts =>
      val needs = row.needs.fold("")(needs =>
        s" when the watermark has reached ${iso(needs)}: ${missing(label.watermark, needs, 0, "drops it")}"
      )
      s"The next row$whose that is given up is ${of(row)}$needs."
    case sync: SyncFacts =>
      val comes = row.needs.fold("")(needs => s" It comes out when ${past(sync.rightReadTo, needs)}.")
      s"The next row$whose to come out is ${of(row)}.$comes"
  }

  private def of(row: NextRow): String = {
    val place = (row.key.toSeq :+ s"partition ${row.partition}").mkString(", ")
    s"${if (row.isBound) "not older than" else "of"} ${iso(row.time)} ($place)"
  }

  /** @param next the effect of the next micro-batch if nothing is missing */
  private def missing(watermark: Option[Long], needs: Long, atMostMore: Long, next: String): String =
    watermark match {
      case None => "there is no watermark yet"
      case Some(now) if now < needs =>
        s"it is ${iso(now)}, and ${Durations.text(needs - now)} of event time are missing"
      case Some(_) if atMostMore > 0 => "it has, and the release step is missing"
      case Some(_) => s"it has, so that the next micro-batch $next"
    }

  /** @param readTo all right partitions
    * @param needs  the minimum time that they must reach
    */
  private def past(readTo: Option[Long], needs: Long): String = {
    val now = readTo match {
      case None => "nothing of it has been read yet"
      case Some(time) if time >= needs => "it has, so that the next micro-batch has the row"
      case Some(time) if time == needs - 1 => "it is there, and the next later row of it is missing"
      case Some(time) =>
        s"it is at ${iso(time)}, and ${Durations.text(needs - 1 - time)} of event time are missing"
    }
    s"the right side has been read past ${iso(needs - 1)}: $now"
  }

  /** The number of left and right rows there are, if that is known. */
  private def counts(left: Option[Long], right: Option[Long]): Option[String] =
    for (l <- left; r <- right)
      yield s"${counted(l, "left row")} and ${counted(r, "right row")} are in the state."

  private def grouped(facts: LabelFacts): Seq[String] =
    (counts(facts.left, facts.right).toSeq :+ facts.next.fold(NoLeftRow)(next(facts, _))) ++
      facts.streams.filter(_.isStalled).map(stalled) ++ silence(facts)

  private def stalled(stream: LabelStreamFacts): String = {
    val names = stream.labels.map(name => s"'$name'").mkString(", ")
    val read =
      stream.readTo.fold("no row of it has come since the query started")(time => s"it is at ${iso(time)}")
    s"The stream of label $names has stalled: it has given nothing for ${Durations.text(stream.idleMs * 1000)} while " +
      s"others gave rows, and $read. ${onStall(stream.onStall, Some(stream.stallAfterMs))}"
  }

  private def silence(facts: LabelFacts): Seq[String] = {
    val closes = facts.idleTimeoutMs.filter(_ => facts.next.nonEmpty).map { ms =>
      s"idle_timeout is ${Durations.text(ms * 1000)}: when the query has had no input for so long, rows come out all the same."
    }
    val closed = facts.closedThrough.map { time =>
      s"Left rows up to ${iso(time)} have come out by idle_timeout, because the query had no input for long: before the " +
        "watermark, which stays where it is."
    }
    closes.toSeq ++ closed
  }

  private def pairs(facts: LabelFacts): Seq[String] = {
    val empty = Seq(Side.Left -> facts.left, Side.Right -> facts.right).collect { case (side, Some(0)) =>
      s"No $side row is in the state: none has come, or it was late or has expired."
    }
    counts(facts.left, facts.right).toSeq ++ (Pairs +: empty) ++ facts.next.map(next(facts, _))
  }

  private def late(facts: LabelFacts): Option[String] = {
    val (left, right) = facts.late
    Option.when(left + right > 0) {
      s"${counted(left, "left row")} and ${counted(right, "right row")} of the last micro-batch were behind the " +
        "watermark, and don't count."
    }
  }

  private def synced(facts: SyncFacts): Seq[String] = {
    val released =
      facts.released.fold("Nothing is released yet")(time => s"Left rows before ${iso(time)} are released")
    val rule =
      s"$released: a left row comes out when all right partitions have been read past it, by sync_delay."
    val several = Option.when(facts.ofSeveral.nonEmpty) {
      s"The checkpoint doesn't say which of ${facts.ofSeveral.mkString(", ")} this join is."
    }
    val row = facts.next.fold(NoLeftRow)(next(facts, _))
    counts(Some(facts.left), Some(facts.right)).toSeq ++ (rule +: several.toSeq) ++ (row +: facts.sides
      .flatMap(side))
  }

  private val NoLeftRow = "No left row waits: one has to come before anything comes out."
  private val Pairs =
    "A pair comes out when the later of its two rows arrives, so each row waits for a partner that is still to come."

  private def side(facts: SyncSideFacts): Seq[String] = {
    val waits = facts.holder.fold(s"No ${facts.side} partition counts: the side follows the other one.") {
      by =>
        val read = by.readTo.fold("no row of it has come yet")(time => s"it has been read up to ${iso(time)}")
        val behind =
          by.behind.filter(_ > 0).fold("")(micros => s", ${Durations.text(micros)} behind the furthest one")
        val silent =
          if (by.idleMs >= 1000)
            s", and was silent for ${Durations.text(by.idleMs / 1000 * 1000000)} while others gave rows"
          else ""
        val condition = by.condition.fold("")(name => s" It is $name.")
        s"The ${facts.side} side waits for partition ${by.partition}: $read$behind$silent.$condition"
    }
    val excluded = Option.when(facts.excluded.nonEmpty) {
      s"It goes on without ${facts.excluded.mkString(", ")}, until they are in time again."
    }
    Seq((waits +: (excluded.toSeq ++ stall(facts))).mkString(" "))
  }

  private def stall(facts: SyncSideFacts): Option[String] = {
    facts.holder.flatMap(_ => facts.onStall).map(onStall(_, facts.stallAfterMs))
  }

  private def onStall(policy: String, stallAfterMs: Option[Long]): String = {
    val after = stallAfterMs.fold("stall_after")(ms => Durations.text(ms * 1000))
    policy match {
      case "exclude" => s"on_stall is 'exclude': if it gives no row for $after, the join goes on without it."
      case "fail" => s"on_stall is 'fail': if it gives no row for $after, the query ends."
      case other => s"on_stall is '$other': the join waits until it has rows again."
    }
  }
}

/** Explains in sentences which inputs hold back a watermark. */
object WatermarkText {
  import EventTimes.iso

  def of(facts: WatermarkFacts): Seq[String] =
    Seq(now(facts)) ++ known(facts) ++ supposed(facts) ++ facts.sources.flatMap(source(_, facts))

  private def now(facts: WatermarkFacts): String = facts.now match {
    case Some(time) => s"The watermark is ${iso(time)}."
    case None => "There is no watermark yet."
  }

  /** By the watermarks of the streams. */
  private def known(facts: WatermarkFacts): Option[String] = {
    val (come, missing) = facts.streams.partition(_.time.nonEmpty)
    val order = come.sortBy(_.time)
    def stream(facts: StreamFacts) = s"`${facts.name}` is at ${iso(facts.time.get)}"
    if (missing.nonEmpty && !facts.takesGreatest) {
      val names = missing.map(stream => s"`${stream.name}`").mkString(", ")
      Some(s"The stream of $names holds it: no row of it has come since the query started.")
    } else
      (if (facts.takesGreatest) order.reverse else order) match {
        case holder +: (others @ _ +: _) if others.head.time != holder.time =>
          val rank = if (facts.takesGreatest) "furthest, which counts" else "furthest behind"
          Some(
            s"The stream of `${holder.name}` holds it, the one that is $rank: " +
              s"${(holder +: others).map(stream).mkString(", ")}."
          )
        case holder +: Seq() => Some(s"It is that of the only stream, `${holder.name}`.")
        case _ => None
      }
  }

  /** By the newest rows, which may be older than the newest that have been read. */
  private def supposed(facts: WatermarkFacts): Option[String] =
    facts.sides.sortBy(_.time) match {
      case Seq(slow, fast) if facts.streams.isEmpty && slow.time != fast.time =>
        def newest(side: StreamFacts) =
          side.time.fold(s"the state has no ${side.name} row")(time =>
            s"the newest ${side.name} row is of ${iso(time)}"
          )
        val holder = if (facts.takesGreatest) fast else slow
        val delay =
          for (now <- facts.now; time <- holder.time if time >= now)
            yield s" The watermark is ${Durations.text(time - now)} behind that, which may be its delay."
        Some(
          s"Supposedly the ${holder.name} side holds it: ${newest(holder)}, and ${newest(
              if (holder eq slow) fast else slow
            )}.${delay.getOrElse("")} The state doesn't " +
            "show rows that were filtered, late or without a key."
        )
      case _ => None
    }

  private def source(source: SourceFacts, facts: WatermarkFacts): Seq[String] = {
    import source._
    val low = source.low.fold("no low watermark yet")(time => s"the low watermark ${iso(time)}")
    val head = s"The $hosts hosts of the watermark '$name' have $low"
    val missing = Option.when(unseen._2 > 0) {
      s"no row has come of ${counted(unseen._2, "host")}: ${some(unseen._1, unseen._2)}"
    }
    // Hosts before the low watermark aren't waited for, or were added since.
    val (passedBy, waited) = slowest.partition { case (_, time) => source.low.exists(time < _) }
    val holder = waited.headOption.map { case (host, time) =>
      val behind = facts.now.filter(_ => source.low.contains(time)).fold("")(_ => ", and holds it")
      s"host $host has been read up to ${iso(time)}$behind"
    }
    val lagging = passedBy.headOption.map { case (host, time) =>
      s"it doesn't wait for host $host, which is at ${iso(time)}"
    }
    val decided = server.filter(identity).map(_ => "the watermark server decides on it")
    val past = Option
      .when(server.isEmpty && holder.nonEmpty) {
        waited.headOption.flatMap { case (_, time) =>
          source.low.filter(low => unseen._2 == 0 && passedBy.isEmpty && low < time).map { _ =>
            "all hosts have passed it, so supposedly a watermark server holds it for others"
          }
        }
      }
      .flatten
    val sentence = (Some(head) ++ missing ++ holder ++ lagging ++ decided ++ past).mkString("; ")
    s"$sentence." +: said.map(text => s"The watermark server says: $text.")
  }

  private def some(names: Seq[String], all: Int): String =
    names.mkString(", ") + (if (all > names.size) s" and ${all - names.size} more" else "")

  /** `1 row`, `2 rows`. */
  def counted(number: Long, what: String): String =
    if (number == 1) s"1 $what" else s"$number ${what}s"
}
