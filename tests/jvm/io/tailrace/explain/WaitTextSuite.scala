package io.tailrace.explain

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Side

/** Sentences, word by word: people search for them. */
final class WaitTextSuite extends AnyFunSuite {
  private val minute = 60L * 1000 * 1000
  // 2026-01-01T12:00:00Z
  private val noon = 1767268800L * 1000 * 1000
  private def at(minutes: Long): Long = noon + minutes * minute

  private def holders(facts: WatermarkFacts): String = WatermarkText.of(facts).drop(1).mkString(" ")

  test("the stream that is furthest behind holds the watermark; by the other policy the one that is ahead") {
    val streams = Seq(StreamFacts("served_at", Some(at(40))), StreamFacts("clicked_at", Some(at(5))))
    val facts = WatermarkFacts(Some(at(5)), streams = streams)
    assert(WatermarkText.of(facts).head == "The watermark is 2026-01-01T12:05:00Z.")
    assert(
      holders(
        facts
      ) == "The stream of `clicked_at` holds it, the one that is furthest behind: `clicked_at` is at " +
        "2026-01-01T12:05:00Z, `served_at` is at 2026-01-01T12:40:00Z."
    )
    assert(holders(facts.copy(takesGreatest = true)).startsWith("The stream of `served_at` holds it"))
    assert(holders(facts.copy(streams = streams.map(_.copy(time = Some(at(5)))))) == "")
    assert(holders(facts.copy(streams = streams.take(1))) == "It is that of the only stream, `served_at`.")
  }

  test("a stream without a row since the start holds it; not where the furthest one counts") {
    val streams = Seq(StreamFacts("served_at", Some(at(40))), StreamFacts("clicked_at", None))
    val facts = WatermarkFacts(None, streams = streams)
    assert(
      WatermarkText.of(facts) == Seq(
        "There is no watermark yet.",
        "The stream of `clicked_at` holds it: no row of it has arrived since the query started."
      )
    )
    assert(!holders(facts.copy(takesGreatest = true)).contains("clicked_at"))
  }

  test("by the newest rows of the sides it can only be supposed; not where the streams are known") {
    val sides = Seq(StreamFacts("left", Some(at(40))), StreamFacts("right", Some(at(10))))
    val facts = WatermarkFacts(Some(at(5)), sides = sides)
    assert(
      holders(
        facts
      ) == "Supposedly the right side holds it: the newest right row is of 2026-01-01T12:10:00Z, and the " +
        "newest left row is of 2026-01-01T12:40:00Z. The watermark is 5 min behind that, which may be its delay. The " +
        "state doesn't show rows that were filtered, late or without a key."
    )
    assert(
      holders(facts.copy(sides = sides.take(1) :+ StreamFacts("right", None)))
        .startsWith("Supposedly the right side holds it: the state has no right row, and")
    )
    assert(holders(facts.copy(takesGreatest = true)).startsWith("Supposedly the left side holds it"))
    assert(holders(facts.copy(sides = sides.take(1))) == "")
    assert(!holders(facts.copy(streams = Seq(StreamFacts("t", Some(at(1)))))).contains("Supposedly"))
  }

  test("hosts: who holds it, who was never seen, who isn't waited for, and who decides") {
    def of(source: SourceFacts, now: Long = at(5)) = holders(WatermarkFacts(Some(now), sources = Seq(source)))
    val slowest = Seq("web-7" -> at(5), "web-1" -> at(9))
    val source = SourceFacts("clicks", Some(at(5)), 40, (Nil, 0), slowest)
    val head = "The 40 hosts of the watermark 'clicks' have the low watermark 2026-01-01T12:05:00Z; "
    val holds = "host web-7 has been read up to 2026-01-01T12:05:00Z, and holds it"
    assert(of(source) == s"$head$holds.")
    assert(
      of(source.copy(unseen = Seq("a", "b") -> 3)) ==
        s"${head}no row has arrived from 3 hosts: a, b and 1 more; $holds."
    )
    assert(
      of(source.copy(slowest = ("web-0" -> at(1)) +: slowest)) ==
        s"$head$holds; it doesn't wait for host web-0, which is at 2026-01-01T12:01:00Z."
    )
    assert(of(source.copy(server = Some(true))) == s"$head$holds; the watermark server decides on it.")
    val early = source.copy(low = Some(at(2)))
    assert(
      of(early).endsWith(
        "; all hosts have passed it, so supposedly it waits at a watermark server for another query, which the " +
          "server's page and `tailrace watermarks` name."
      )
    )
    assert(!of(early.copy(server = Some(false))).contains("supposedly"))
    Seq(None, Some(true)).foreach { server =>
      val told = early.copy(server = server, holders = Seq("hourly-b"))
      assert(of(told).endsWith("; at the watermark server it waits for the query 'hourly-b'."))
      assert(of(told.copy(holders = Seq("a", "b"))).endsWith(" waits for the queries 'a', 'b'."))
    }
    val none = SourceFacts("clicks", None, 2, Seq("a") -> 1, Seq("b" -> at(5)))
    assert(
      of(
        none
      ) == "The 2 hosts of the watermark 'clicks' have no low watermark yet; no row has arrived from 1 host: a; " +
        "host b has been read up to 2026-01-01T12:05:00Z."
    )
  }

  test(
    "of several accurate watermarks the lowest one is first, and named as the one that holds the query's"
  ) {
    def source(name: String, low: Option[Long]) =
      SourceFacts(name, low, 1, (Nil, 0), low.map(time => "web-1" -> time).toSeq)
    val facts =
      WatermarkFacts(Some(at(5)), sources = Seq(source("views", Some(at(9))), source("clicks", Some(at(5)))))
    val Seq(_, lowest, first, second) = WatermarkText.of(facts): @unchecked
    assert(lowest == "The watermark can't pass the lowest of the 2 accurate watermarks below: 'clicks'.")
    assert(
      first.startsWith("The only host of the watermark 'clicks' has the low watermark 2026-01-01T12:05:00Z")
    )
    assert(second.startsWith("The only host of the watermark 'views' has"))
    val none = facts.copy(sources = source("orders", None) +: facts.sources)
    assert(
      holders(none).startsWith(
        "The watermark can't pass the lowest of the 3 accurate watermarks below: 'orders'."
      )
    )
    // Nothing to tell apart, or it isn't the lowest that counts, or the streams say which one it is.
    val same = facts.copy(sources = facts.sources.map(_.copy(low = Some(at(5)))))
    val streams = facts.copy(streams = Seq(StreamFacts("clicked_at", Some(at(5)))))
    Seq(same, facts.copy(takesGreatest = true), streams).foreach(one =>
      assert(!holders(one).contains("can't pass"))
    )
  }

  private val row = NextRow(at(0), isBound = false, 3, Some("user_id=7"), Some(at(30)))
  private val label = LabelFacts(isGrouped = true, 30 * minute, Some(at(5)), Some(2), Some(1), Some(row))
  private def next(facts: JoinFacts): String = WaitText.of(facts).find(_.startsWith("The next row")).get

  test("the next group, what it needs and what is missing") {
    val comes =
      "The next row to be emitted is of 2026-01-01T12:00:00Z (user_id=7, partition 3). It is emitted when the " +
        "watermark has reached 2026-01-01T12:30:00Z"
    assert(
      WaitText.of(label) == Seq(
        "2 left rows and 1 right row are in the state.",
        s"$comes: it is 2026-01-01T12:05:00Z, and 25 min of event time are missing."
      )
    )
    assert(next(label.copy(watermark = None)) == s"$comes: there is no watermark yet.")
    val reached = label.copy(watermark = Some(at(30)))
    assert(next(reached) == s"$comes: it has, so that the next micro-batch has the row.")
    val stepped = row.copy(isBound = true, key = None, atMostMore = minute / 2)
    assert(
      next(
        reached.copy(next = Some(stepped))
      ) == "The next row to be emitted is not older than 2026-01-01T12:00:00Z " +
        "(partition 3). It is emitted when the watermark has reached 2026-01-01T12:30:00Z, plus at most 30 s up to its " +
        "release step: it has, and the release step is missing."
    )
    assert(
      WaitText.of(label.copy(next = None)).last ==
        "No left row is buffered: nothing is emitted before one arrives."
    )
    assert(
      WaitText.of(label.copy(late = (1, 2))).last ==
        "1 left row and 2 right rows of the last micro-batch were behind the watermark, and don't count."
    )
  }

  test("what is a reason for a join that gives nothing") {
    assert(label.isReason && label.copy(next = None).isReason && label.copy(watermark = None).isReason)
    val reached = label.copy(watermark = Some(at(30)))
    assert(!reached.isReason && reached.copy(next = Some(row.copy(atMostMore = 1))).isReason)
    val pairs = label.copy(isGrouped = false, next = None)
    assert(!pairs.isReason && !pairs.copy(left = None).isReason)
    assert(pairs.copy(left = Some(0)).isReason && pairs.copy(right = Some(0)).isReason)
    assert(sync.isReason && sync.copy(next = None).isReason)
    assert(!sync.copy(sides = Seq(right.copy(readTo = Some(at(10))))).isReason)
  }

  test("pairs come on arrival: what a row waits for, and when it is given up") {
    val pairs = label.copy(isGrouped = false)
    assert(
      WaitText.of(pairs).drop(1) == Seq(
        "A pair is emitted when the later of its two rows arrives: each buffered row waits for its partner.",
        "The next row that is given up is of 2026-01-01T12:00:00Z (user_id=7, partition 3) when the watermark has " +
          "reached 2026-01-01T12:30:00Z: it is 2026-01-01T12:05:00Z, and 25 min of event time are missing."
      )
    )
    assert(
      WaitText.of(pairs.copy(right = Some(0), next = None)).last ==
        "No right row is in the state: none has arrived, or it was late or has expired."
    )
  }

  private val holder = HolderFacts("clicks-3", Some(at(1)), Some(5 * minute), 62500, Some("stalled"))
  private val right =
    SyncSideFacts(Side.Right, Some(at(1)), Some(holder), Seq("clicks-1"), Some("pause"), Some(60000))
  private val sync = SyncFacts(
    Some(at(0)),
    1,
    0,
    Some(NextRow(at(2), isBound = false, 0, Some("id=1"), Some(at(3) + 1))),
    Seq(right)
  )

  test(
    "a synced join waits for a partition: how far it is, for how long it is silent, and what on_stall does"
  ) {
    val held =
      "The right side waits for partition clicks-3: it has been read up to 2026-01-01T12:01:00Z, 5 min behind " +
        "the furthest one, and was idle for 1 min 2 s while others had rows. It is stalled. It continues without " +
        "clicks-1, until they have caught up. "
    assert(
      WaitText.of(sync) == Seq(
        "1 left row and 0 right rows are in the state.",
        "Left rows before 2026-01-01T12:00:00Z are released: a left row is emitted when all right partitions have been " +
          "read past it, by sync_delay.",
        "The next row to be emitted is of 2026-01-01T12:02:00Z (id=1, partition 0). It is emitted when the right side has " +
          "been read past 2026-01-01T12:03:00Z: it is at 2026-01-01T12:01:00Z, and 2 min of event time are missing.",
        s"${held}on_stall is 'pause': the join waits until it has rows again."
      )
    )
    def last(side: SyncSideFacts) = WaitText.of(sync.copy(sides = Seq(side))).last
    assert(
      last(right.copy(onStall = Some("exclude"))) ==
        s"${held}on_stall is 'exclude': if it gives no row for 1 min, the join continues without it."
    )
    assert(
      last(right.copy(onStall = Some("fail"))).endsWith("if it gives no row for 1 min, the query ends.")
    )
    assert(!last(right.copy(onStall = None)).contains("on_stall"))
    assert(
      last(right.copy(holder = None, excluded = Nil)) ==
        "No right partition counts: the side follows the other one."
    )
    assert(
      last(right.copy(holder = Some(holder.copy(readTo = None)))).contains("no row of it has arrived yet")
    )
    assert(!last(right.copy(holder = Some(holder.copy(idleMs = 999)))).contains("idle"))
  }

  test("a synced join that has read as far as needed, just not as far, or nothing") {
    def of(readTo: Option[Long]) = next(sync.copy(sides = Seq(right.copy(readTo = readTo))))
    assert(of(Some(at(3) + 1)).endsWith(": it has, so that the next micro-batch has the row."))
    assert(of(Some(at(3))).endsWith(": it is there, and the next later row of it is missing."))
    assert(of(None).endsWith(": nothing of it has been read yet."))
    assert(WaitText.of(sync.copy(released = None))(1).startsWith("Nothing is released yet:"))
    assert(
      WaitText
        .of(sync.copy(ofSeveral = Seq("a", "b")))
        .contains("The checkpoint doesn't say which of a, b this join is.")
    )
  }
}
