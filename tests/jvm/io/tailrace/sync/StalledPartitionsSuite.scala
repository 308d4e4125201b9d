package io.tailrace.sync

import org.apache.spark.sql.Row
import org.apache.spark.sql.tailrace.StreamAccess

import io.tailrace.common.Policy
import io.tailrace.testkit.LoggedStream.logged
import io.tailrace.testkit.{FakeRecord, SlowSuite}

/** Partitions and sides of a query that give nothing. */
final class StalledPartitionsSuite extends SyncProgressQuerySuite with SlowSuite {
  import SyncProgressQuerySuite._

  test("with on_stall = fail a stalled partition ends the query, by its name") {
    withClock { (checkpoint, clock) =>
      val settings = Settings.copy(onStall = Policy.Fail, stallAfterMs = 2)
      val (left, right, query) = memory(checkpoint, settings, Some(clock))
      query.start()
      query.add {
        left.addData(logged("a" -> 1000))
        right.addData(logged("c" -> 100, "d" -> 100))
      }: Unit
      // A batch counts a millisecond.
      clock.advance(1)
      query.add(right.addData(logged("c" -> 101))): Unit
      clock.advance(1)
      StreamAccess.betweenBatches(query.streaming)(right.addData(logged("c" -> 107)): Unit)
      val (condition, parameters) = failureOf(query.streaming)
      assert(condition == "TAILRACE_SYNC_STALLED")
      assert(
        parameters.view.filterKeys(Set("name", "side", "partition")).toMap ==
          Map("name" -> "clicks", "side" -> "right", "partition" -> "d")
      )
      assert(parameters("latest").contains("2026-01-01T12:01:40Z") && parameters("lag").startsWith("7000 ms"))
      // The next start has a batch's time to mend it.
      query.start()
      query.streaming.processAllAvailable()
      query.add(right.addData(logged("d" -> 107))): Unit
      assert(query.next.release == time(102))
    }
  }

  test("with on_stall = fail for its side, a side that stops as a whole ends the query") {
    withDirectory { checkpoint =>
      val settings =
        Settings.copy(onStall = Policy.Fail, onLeftStall = Some(Policy.Pause), stallAfterMs = 2)
      val (left, right, query) = memory(checkpoint, settings)
      query.start()
      query.add(right.addData(logged("c" -> 100))): Unit
      query.add(right.addData(logged("c" -> 101))): Unit
      query.add(right.addData(logged("c" -> 102))): Unit
      assert(query.heldBackBy == Seq("left (none yet) stalled"))
      query.add(left.addData(logged("a" -> 110))): Unit
      StreamAccess.betweenBatches(query.streaming)(left.addData(logged("a" -> 112)): Unit)
      val (condition, parameters) = failureOf(query.streaming)
      assert(
        condition == "TAILRACE_SYNC_STALLED" && parameters("side") == "right" && parameters(
          "partition"
        ) == "c"
      )
      assert(parameters("lag").startsWith("10000 ms"))
    }
  }

  test("a partition of Kafka counts as long as the topic has it") {
    withDirectory { checkpoint =>
      val (left, right, query) = topics(checkpoint)(identity)
      left.add("clicks", 0, at(100))
      right.add("views", 0, at(100))
      right.add("views", 1)
      query.start()
      query.streaming.processAllAvailable()
      assert(query.next.release == SyncTimes.Unknown)
      assert(query.heldBackBy == Seq("right views-1 waiting"))
      assert(query.add(right.add("views", 1, at(90))).release == time(85))
      // A new one is known before it has given anything; a restart doesn't forget it.
      assert(query.add(right.add("views", 2)).release == time(85))
      query.restart()
      assert(query.add { right.add("views", 1, at(200)); right.add("views", 0, at(200)) }.release == time(85))
      assert(query.heldBackBy == Seq("right views-2 waiting"))
      assert(query.add(right.remove("views", 2)).release == time(195))
      query.streaming.stop()
    }
  }

  test(
    "an idle partition has no unread records, and has stalled after too long; a slow one has unread records"
  ) {
    withClock { (checkpoint, clock) =>
      val (left, right, query) = topics(checkpoint, Settings.copy(stallAfterMs = 2), Some(clock)) { frame =>
        frame
          .selectExpr("topic", "cast(partition AS STRING) AS partition", "at", "id + 1 AS id")
          .where("id > 0")
      }
      left.add("clicks", 0, at(1000))
      right.add("views", 0, at(100))
      right.add("views", 1, at(100))
      def rights = query.heldBackBy.filter(_.startsWith("right"))
      query.start()
      query.streaming.processAllAvailable()
      query.add(right.add("views", 0, at(200))): Unit
      assert(rights == Seq("right views-1 idle"))
      query.add {
        right.stall("views", 1, Some(1))
        right.add("views", 1, at(210))
        right.add("views", 0, at(210))
      }: Unit
      clock.advance(5)
      query.add(right.add("views", 0, at(220))): Unit
      // There is something of it.
      assert(rights == Seq("right views-1 slow"))
      query.add {
        right.stall("views", 1, None)
        right.add("views", 1, at(220))
        right.add("views", 0, at(224))
      }: Unit
      assert(rights.isEmpty && query.next.release == time(215))
      clock.advance(5)
      query.add(right.add("views", 0, at(230))): Unit
      clock.advance(5)
      query.add(right.add("views", 0, at(231))): Unit
      assert(rights == Seq("right views-1 stalled"))
    }
  }

  test("the join waits for a partition with filtered rows only as long as for one that stalls") {
    withClock { (checkpoint, clock) =>
      val (left, right, query) =
        topics(checkpoint, Settings.copy(stallAfterMs = 2), Some(clock))(_.where("id >= 0"))
      val filtered = FakeRecord("k", time(10), -1)
      def rights = query.heldBackBy.filter(_.startsWith("right"))
      def add(second: Double, other: FakeRecord*): SyncTimes = {
        clock.advance(2)
        query.add { right.add("views", 0, at(second)); right.add("views", 1, other: _*) }
      }
      left.add("clicks", 0, at(100))
      right.add("views", 0, at(100))
      right.add("views", 1, filtered)
      query.start()
      query.streaming.processAllAvailable()
      assert(query.next.release == SyncTimes.Unknown && rights == Seq("right views-1 filtered"))
      // A batch counts a millisecond.
      assert(add(150, filtered).release == SyncTimes.Unknown)
      assert(add(200, filtered).release == time(195) && rights.isEmpty)
      query.restart()
      // What comes of it may be old, as long as it gives nothing.
      assert(add(300).release == time(195) && rights == Seq("right views-1 idle"))
      assert(add(301, filtered).release == time(296))
      assert(add(400, at(295)).release == time(296))
      assert(query.metrics.getSeq[Row](5) == Seq(Row("right", "views-1", 1L)))
      assert(add(500, filtered).release == time(296) && rights == Seq("right views-1 filtered"))
      query.streaming.stop()
    }
  }
}
