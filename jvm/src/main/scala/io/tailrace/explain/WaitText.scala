package io.tailrace.explain

import io.tailrace.common.{Durations, EventTimes, Side}

/** Explains in sentences what holds back the rows of a join: for `tailrace why`, and for the warnings of a query that
  * runs.
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
        s" It is emitted when the watermark has reached ${iso(needs)}${if (row.atMostMore > 0) step else ""}: " +
          s"${missing(label.watermark, needs, row.atMostMore, "has the row")}."
      }
      s"The next row$whose to be emitted is ${of(row)}.$comes"
    case label: LabelFacts =>
      val needs = row.needs.fold("")(needs =>
        s" when the watermark has reached ${iso(needs)}: ${missing(label.watermark, needs, 0, "drops it")}"
      )
      s"The next row$whose that is given up is ${of(row)}$needs."
    case sync: SyncFacts =>
      val comes = row.needs.fold("")(needs => s" It is emitted when ${past(sync.rightReadTo, needs)}.")
      s"The next row$whose to be emitted is ${of(row)}.$comes"
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

  /** The warning of an operator that has had input without output.
    *
    * @param watermark the sentences about its watermark
    */
  def noOutput(operator: String, forMs: Long, watermark: Seq[String], facts: JoinFacts): String =
    s"TAILRACE_NO_OUTPUT: $operator has had input for ${Durations.text(forMs * 1000)}, and has emitted " +
      s"nothing. ${(watermark ++ of(facts)).mkString(" ")}"

  /** The warning of a label's stream that has stalled. */
  def labelStalled(facts: LabelStreamFacts): String =
    s"${facts.kind.stalled}: the stream of ${facts.kind.words} ${facts.labels.mkString(", ")} has had no rows for " +
      s"${Durations.text(facts.idleMs * 1000)} while others had rows: " +
      s"${readTo(facts)}, and ${facts.kind.waiting} wait for it"

  /** The warning of a stream that isn't waited for any longer. */
  def streamExcluded(facts: LabelStreamFacts): String =
    s"TAILRACE_STREAM_EXCLUDED: the stream of ${facts.kind.words} ${facts.labels.mkString(", ")} has had no rows for " +
      s"${Durations.text(facts.idleMs * 1000)} while others had rows: ${readTo(facts)}. The watermark advances without " +
      "it until it has caught up"

  /** The warning of a partition that has stalled.
    *
    * @param isFiltered whether only records of it came that are filtered before the join
    */
  def partitionStalled(join: String, side: String, holder: HolderFacts, isFiltered: Boolean): String = {
    val condition = holder.condition.fold("")(name => s", which is $name")
    val behind = holder.behind.fold("")(micros => s" and ${micros / 1000} ms behind the furthest one")
    val filtered =
      if (isFiltered)
        ". It has records, and what is before the join filters all of them: with stall_after the join continues"
      else ""
    s"TAILRACE_SYNC_STALLED: no row of the $side partition ${holder.partition} for ${holder.idleMs} ms" +
      s"$condition$behind: the join '$join' waits for it$filtered"
  }

  /** The warning of a partition that isn't waited for any longer. */
  def partitionExcluded(join: String, side: String, partition: String, stallAfterMs: Long): String =
    s"TAILRACE_SYNC_EXCLUDED: no row of the $side partition $partition for $stallAfterMs ms: the join '$join' continues " +
      "without it until it has caught up"

  private def readTo(stream: LabelStreamFacts): String =
    stream.readTo.fold("no row of it has arrived since the query started")(time => s"it is at ${iso(time)}")

  private def stalled(stream: LabelStreamFacts): String = {
    val names = stream.labels.map(name => s"'$name'").mkString(", ")
    s"The stream of ${stream.kind.words} $names has stalled: it has had no rows for ${Durations.text(stream.idleMs * 1000)} while " +
      s"others had rows, and ${readTo(stream)}. ${onStall(stream.onStall, Some(stream.stallAfterMs))}"
  }

  private def silence(facts: LabelFacts): Seq[String] = {
    val closes = facts.idleTimeoutMs.filter(_ => facts.next.nonEmpty).map { ms =>
      s"idle_timeout is ${Durations.text(ms * 1000)}: when the query has had no input for so long, its rows are emitted all the same."
    }
    val closed = facts.closedThrough.map { time =>
      s"Left rows up to ${iso(time)} were flushed by idle_timeout, because the query had had no input: before the " +
        "watermark, which stays where it is."
    }
    closes.toSeq ++ closed
  }

  private def pairs(facts: LabelFacts): Seq[String] = {
    val empty = Seq(Side.Left -> facts.left, Side.Right -> facts.right).collect { case (side, Some(0)) =>
      s"No $side row is in the state: none has arrived, or it was late or has expired."
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
      s"$released: a left row is emitted when all right partitions have been read past it, by sync_delay."
    val several = Option.when(facts.ofSeveral.nonEmpty) {
      s"The checkpoint doesn't say which of ${facts.ofSeveral.mkString(", ")} this join is."
    }
    val row = facts.next.fold(NoLeftRow)(next(facts, _))
    counts(Some(facts.left), Some(facts.right)).toSeq ++ (rule +: several.toSeq) ++ (row +: facts.sides
      .flatMap(side))
  }

  private val NoLeftRow = "No left row is buffered: nothing is emitted before one arrives."
  private val Pairs =
    "A pair is emitted when the later of its two rows arrives: each buffered row waits for its partner."

  /** The partition that a side of a synced join waits for. */
  def side(facts: SyncSideFacts): Seq[String] = {
    val waits = facts.holder.fold(s"No ${facts.side} partition counts: the side follows the other one.") {
      by =>
        val read =
          by.readTo.fold("no row of it has arrived yet")(time => s"it has been read up to ${iso(time)}")
        val behind =
          by.behind.filter(_ > 0).fold("")(micros => s", ${Durations.text(micros)} behind the furthest one")
        val silent =
          if (by.idleMs >= 1000)
            s", and was idle for ${Durations.text(by.idleMs / 1000 * 1000000)} while others had rows"
          else ""
        val condition = by.condition.fold("")(name => s" It is $name.")
        s"The ${facts.side} side waits for partition ${by.partition}: $read$behind$silent.$condition"
    }
    val excluded = Option.when(facts.excluded.nonEmpty) {
      s"It continues without ${facts.excluded.mkString(", ")}, until they have caught up."
    }
    Seq((waits +: (excluded.toSeq ++ stall(facts))).mkString(" "))
  }

  private def stall(facts: SyncSideFacts): Option[String] = {
    facts.holder.flatMap(_ => facts.onStall).map(onStall(_, facts.stallAfterMs))
  }

  private def onStall(policy: String, stallAfterMs: Option[Long]): String = {
    val after = stallAfterMs.fold("stall_after")(ms => Durations.text(ms * 1000))
    policy match {
      case "exclude" =>
        s"on_stall is 'exclude': if it gives no row for $after, the join continues without it."
      case "fail" => s"on_stall is 'fail': if it gives no row for $after, the query ends."
      case other => s"on_stall is '$other': the join waits until it has rows again."
    }
  }
}

/** Explains in sentences which inputs hold back a watermark. */
object WatermarkText {
  import EventTimes.iso

  def of(facts: WatermarkFacts): Seq[String] =
    Seq(now(facts)) ++ known(facts) ++ supposed(facts) ++ lowest(facts) ++
      facts.sources.sortBy(_.low).flatMap(source(_, facts))

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
      Some(s"The stream of $names holds it: no row of it has arrived since the query started.")
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

  /** Which of several accurate watermarks holds back the query's, where the streams don't say it. */
  private def lowest(facts: WatermarkFacts): Option[String] = {
    val low = facts.sources.map(_.low).minOption
    val (holders, others) = facts.sources.partition(source => low.contains(source.low))
    Option.when(others.nonEmpty && facts.streams.isEmpty && !facts.takesGreatest) {
      val names = holders.map(source => s"'${source.name}'").mkString(", ")
      s"The watermark can't pass the lowest of the ${facts.sources.size} accurate watermarks below: $names."
    }
  }

  private def source(source: SourceFacts, facts: WatermarkFacts): Seq[String] = {
    import source._
    val low = source.low.fold("no low watermark yet")(time => s"the low watermark ${iso(time)}")
    val head =
      if (hosts == 1) s"The only host of the watermark '$name' has $low"
      else s"The $hosts hosts of the watermark '$name' have $low"
    val missing = Option.when(unseen._2 > 0) {
      s"no row has arrived from ${counted(unseen._2, "host")}: ${some(unseen._1, unseen._2)}"
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
    val decided = Option.when(holders.nonEmpty || server.contains(true)) {
      if (holders.isEmpty) "the watermark server decides on it"
      else
        s"at the watermark server it waits for ${if (holders.size == 1) "the query" else "the queries"} " +
          holders.map(query => s"'$query'").mkString(", ")
    }
    val past = waited.headOption
      .filter { case (_, time) =>
        decided.isEmpty && server.isEmpty && unseen._2 == 0 && passedBy.isEmpty && source.low.exists(_ < time)
      }
      .map { _ =>
        "all hosts have passed it, so supposedly it waits at a watermark server for another query, which the " +
          "server's page and `tailrace watermarks` name"
      }
    val sentence = (Some(head) ++ missing ++ holder ++ lagging ++ decided ++ past).mkString("; ")
    s"$sentence." +: said.map(text => s"The watermark server says: $text.")
  }

  private def some(names: Seq[String], all: Int): String =
    names.mkString(", ") + (if (all > names.size) s" and ${all - names.size} more" else "")

  /** `1 row`, `2 rows`. */
  def counted(number: Long, what: String): String =
    if (number == 1) s"1 $what" else s"$number ${what}s"
}
