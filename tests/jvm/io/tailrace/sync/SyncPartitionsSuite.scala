package io.tailrace.sync

import io.tailrace.common.{Policy, Side}
import io.tailrace.sync.SyncTimes.Unknown

/** How far a synced join has been read, and who it waits for. */
final class SyncPartitionsSuite extends PartitionRulesSuite {

  test("no row is released before each partition of the source has given a row") {
    val partitions = new SyncPartitions(settings)
    val both = Some(Seq("a", "b").map(ListedPartition(_)))
    assert(partitions.times == SyncTimes(Unknown, Unknown))
    assert(partitions.listed(both, "l" -> 50)("a" -> 100).release == Unknown)
    assert(partitions.right.holder.get.condition == PartitionCondition.Waiting)
    assert(partitions.listed(both)("b" -> 80) == SyncTimes(70, 50))
  }

  test("of a source that can't list its partitions, the join waits for those that it has seen") {
    val partitions = new SyncPartitions(settings)
    assert(partitions.batch()("a" -> 100).release == 90)
    assert(partitions.batch()("b" -> 50).release == 90)
    assert(partitions.batch()("a" -> 200).release == 90)
    assert(partitions.batch()("b" -> 150).release == 140)
  }

  test("no time goes back when a partition comes late, or when the delay is longer") {
    val partitions = new SyncPartitions(settings)
    partitions.batch("l" -> 300)("a" -> 200): Unit
    assert(partitions.times == SyncTimes(190, 190))
    val longer = new SyncPartitions(settings.copy(syncDelay = 100))
    longer.restore(partitions.file)
    assert(longer.times == SyncTimes(190, 190))
    assert(longer.batch()("a" -> 210) == SyncTimes(190, 190))
    assert(longer.batch()("a" -> 300) == SyncTimes(200, 200))
  }

  test("right rows don't expire before the left rows that may join them are released") {
    val partitions = new SyncPartitions(settings)
    partitions.batch("l" -> 100)("a" -> 100, "b" -> 100): Unit
    // b stands still; left rows after 90 wait, and so do right rows of a for them.
    assert(partitions.batch("l" -> 5000)("a" -> 5000) == SyncTimes(90, 90))
    assert(partitions.batch()("b" -> 5000) == SyncTimes(4990, 4990))
  }

  test("a window shorter than the sync delay still lets left rows jump back by the delay") {
    val partitions = new SyncPartitions(settings.copy(window = 3))
    assert(partitions.batch("l" -> 100)("a" -> 500) == SyncTimes(490, 93))
  }

  test("silence of a partition begins with the first batch that has only rows of others") {
    val partitions = new SyncPartitions(settings)
    partitions.batch()("a" -> 100, "b" -> 100): Unit
    // No row came for an hour: no partition was silent while others had rows.
    clock += 3600000
    partitions.batch()("a" -> 200): Unit
    assert(partitions.right.stalled.isEmpty && partitions.right.holder.get.idleMs == 1)
    partitions.batch()("a" -> 210): Unit
    assert(partitions.right.stalled.isEmpty)
    partitions.batch()("a" -> 220): Unit
    assert(
      partitions.right.stalled.contains(HeldBy("b", 100, Some(120), 3, PartitionCondition.Stalled))
    )
    partitions.batch()("b" -> 220): Unit
    assert(partitions.right.stalled.isEmpty)
  }

  test(
    "the time in which the query is down isn't a partition's silence, and a start doesn't forget what was"
  ) {
    val first = new SyncPartitions(settings)
    first.batch()("a" -> 100, "b" -> 100): Unit
    first.batch()("a" -> 200): Unit
    first.batch()("a" -> 300): Unit
    clock += 3600000
    val second = new SyncPartitions(settings)
    second.restore(SyncFile.decode(SyncFile.encode(first.file, "join/1"), "file", "join/1"))
    second.batch()("a" -> 400): Unit
    assert(second.right.stalled.isEmpty && second.right.holder.get.idleMs == 2)
    second.batch()("a" -> 500): Unit
    assert(second.right.stalled.exists(_.partition == "b"))
  }

  test("a partition that isn't behind another one hasn't stalled") {
    val partitions = new SyncPartitions(settings)
    partitions.batch()("a" -> 100, "b" -> 100): Unit
    (1 to 5).foreach(_ => partitions.batch("l" -> 1)())
    assert(partitions.right.stalled.isEmpty)
  }

  test("a partition that the query holds back isn't silent") {
    val partitions = new SyncPartitions(excluding)
    val all = Some(Seq(ListedPartition("a"), ListedPartition("b", Some(7), isHeldBack = true)))
    partitions.batch()("a" -> 100, "b" -> 100): Unit
    (1 to 5).foreach(i => partitions.listed(all)("a" -> (100L + i)))
    assert(partitions.right.condition("b").get == PartitionCondition.Paused)
    assert(partitions.right.holder.exists(_.partition == "b"))
    // Nor is it when it may be read again, and hasn't been yet.
    partitions.listed(Some(Seq("a", "b").map(ListedPartition(_))))("a" -> 110): Unit
    assert(partitions.right.condition("b").get != PartitionCondition.Excluded)
    assert(partitions.right.holder.exists(_.idleMs == 1))
  }

  test("the join doesn't wait for an excluded partition until it is in time again") {
    val partitions = new SyncPartitions(excluding)
    partitions.batch()("a" -> 100, "b" -> 100): Unit
    partitions.batch()("a" -> 200): Unit
    partitions.batch()("a" -> 300): Unit
    assert(partitions.batch()("a" -> 400).release == 390)
    assert(partitions.right.condition("b").get == PartitionCondition.Excluded)
    // Its rows come late: the join doesn't wait for it.
    assert(partitions.batch()("a" -> 500, "b" -> 150).release == 490)
    assert(partitions.batch()("a" -> 600, "b" -> 489).release == 590)
    assert(partitions.right.condition("b").get == PartitionCondition.Excluded)
    // No further behind than rows may be.
    assert(partitions.batch()("b" -> 590).release == 590)
    assert(partitions.right.condition("b").get == PartitionCondition.Running)
    assert(partitions.batch()("a" -> 700).release == 590)
  }

  test("an excluded partition that is in time stays so until it gives a row") {
    val partitions = new SyncPartitions(excluding)
    partitions.batch()("a" -> 100, "b" -> 100): Unit
    (103 to 105).foreach(time => partitions.batch()("a" -> time.toLong))
    (106 to 108).foreach { time =>
      partitions.batch()("a" -> time.toLong): Unit
      assert(partitions.right.condition("b").get == PartitionCondition.Excluded)
    }
    partitions.batch()("a" -> 109, "b" -> 101): Unit
    assert(partitions.right.condition("b").get == PartitionCondition.Running)
  }

  test("a partition that has stalled isn't told of while the query holds it back") {
    val partitions = new SyncPartitions(settings)
    partitions.batch()("a" -> 100, "b" -> 100): Unit
    (2 to 4).foreach(i => partitions.batch()("a" -> i * 100L))
    assert(partitions.right.stalled.exists(_.partition == "b"))
    val all = Some(Seq(ListedPartition("a"), ListedPartition("b", Some(7), isHeldBack = true)))
    partitions.listed(all)("a" -> 500): Unit
    assert(partitions.right.stalled.isEmpty)
    assert(partitions.right.condition("b").get == PartitionCondition.Paused)
  }

  test("a partition stays excluded after a restart") {
    val first = new SyncPartitions(excluding)
    first.batch()("a" -> 100, "b" -> 100): Unit
    (2 to 4).foreach(i => first.batch()("a" -> i * 100L))
    val second = new SyncPartitions(excluding)
    first.batch()("a" -> 450, "b" -> 110): Unit
    second.restore(first.file)
    assert(second.batch()("a" -> 500).release == 490)
  }

  test("when all partitions are silent, the join follows the furthest one") {
    val partitions = new SyncPartitions(excluding)
    partitions.batch()("a" -> 100, "b" -> 150, "c" -> 120): Unit
    (1 to 5).foreach(i => partitions.batch("l" -> i.toLong)())
    assert(partitions.times.release == 140)
  }

  test("a side that stops as a whole while the other one goes on has stalled, and its partition is named") {
    Side.values.foreach { side =>
      def batch(partitions: SyncPartitions, own: (String, Long)*)(other: (String, Long)*): SyncTimes =
        if (side == Side.Left) partitions.batch(own: _*)(other: _*)
        else partitions.batch(other: _*)(own: _*)
      val partitions = new SyncPartitions(settings)
      batch(partitions, "a" -> 100, "b" -> 150)("o" -> 120): Unit
      batch(partitions)("o" -> 130): Unit
      batch(partitions)("o" -> 140): Unit
      assert(partitions.stalled.isEmpty)
      batch(partitions)("o" -> 1000): Unit
      assert(partitions.stalled == Seq(side -> HeldBy("a", 100, Some(50), 3, PartitionCondition.Stalled)))
      batch(partitions, "a" -> 900)("o" -> 1001): Unit
      // The furthest one of the side.
      assert(partitions.stalled.map(_._2.partition) == Seq("b"))
      assert(partitions.side(side).condition("a").contains(PartitionCondition.Running))
    }
  }

  test(
    "a side without a partition that counts follows the other side, and is waited for again when it is back"
  ) {
    val partitions = new SyncPartitions(excluding)
    partitions.batch("l" -> 100)("a" -> 100, "b" -> 150): Unit
    partitions.batch("l" -> 200)(): Unit
    partitions.batch("l" -> 300)(): Unit
    assert(partitions.times == SyncTimes(90, 90))
    assert(partitions.batch("l" -> 400)() == SyncTimes(390, 390))
    assert(partitions.batch("l" -> 500)() == SyncTimes(490, 490))
    assert(partitions.right.partitions.forall(_.excluded) && partitions.stalled.isEmpty)
    assert(partitions.batch("l" -> 600)("a" -> 590).release == 580)
    assert(partitions.right.condition("a").contains(PartitionCondition.Running))
    assert(partitions.batch("l" -> 700)().release == 580)
  }

  test("a side that has never given a row stalls, and is excluded") {
    val partitions = new SyncPartitions(excluding.copy(onLeftStall = Some(Policy.Pause)))
    partitions.batch("l" -> 100)(): Unit
    assert(
      partitions.right.holder.exists(by =>
        by.partition == "(none yet)" && by.condition == PartitionCondition.Waiting
      )
    )
    partitions.batch("l" -> 200)(): Unit
    partitions.batch("l" -> 300)(): Unit
    assert(partitions.batch("l" -> 400)().release == 390)
    assert(partitions.batch("l" -> 500)("a" -> 500, "b" -> 495).release == 485)
    assert(partitions.right.partitions.map(_.name).toSeq == Seq("a", "b"))
    val pausing = new SyncPartitions(settings)
    (1 to 4).foreach(i => pausing.batch()("r" -> i.toLong))
    assert(pausing.stalled.map(s => s._1 -> s._2.partition) == Seq(Side.Left -> "(none yet)"))
  }

  test("each side has its own policy for stalled partitions") {
    val partitions = new SyncPartitions(excluding.copy(onLeftStall = Some(Policy.Pause)))
    partitions.batch("a" -> 100, "b" -> 100)("c" -> 100, "d" -> 100): Unit
    (2 to 5).foreach(i => partitions.batch("a" -> i * 100L)("c" -> i * 100L))
    assert(partitions.left.condition("b").contains(PartitionCondition.Stalled))
    assert(partitions.right.condition("d").contains(PartitionCondition.Excluded))
  }

  test("a partition with unread records isn't silent, and one with an unknown number isn't either") {
    val partitions = new SyncPartitions(excluding)
    def batch(b: ListedPartition, hasUnread: Boolean = false): Unit = {
      clock += 1
      val all = Some(Seq(ListedPartition("a", Some(0L)), b))
      val other = SideBatch(reads("f" -> clock), None, hasUnread)
      partitions.advance(other, SideBatch(reads("a" -> (1000 + clock)), all), clock)
    }
    partitions.batch("e" -> 1, "f" -> 1)("a" -> 1000, "b" -> 100): Unit
    (1 to 10).foreach(_ => batch(ListedPartition("b", Some(3L)), hasUnread = true))
    assert(partitions.right.condition("b").contains(PartitionCondition.Slow))
    assert(partitions.left.holder.exists(_.idleMs == 0))
    (1 to 3).foreach(_ => batch(ListedPartition("b", Some(0L))))
    assert(partitions.right.condition("b").contains(PartitionCondition.Excluded))
    assert(partitions.left.condition("e").contains(PartitionCondition.Excluded))
  }

  test("partitions of the left side stall, are excluded and come back like those of the right side") {
    val partitions = new SyncPartitions(excluding)
    partitions.batch("a" -> 100, "b" -> 100)("r" -> 100000): Unit
    (2 to 4).foreach(i => partitions.batch("a" -> i * 1000L)())
    assert(partitions.times == SyncTimes(99990, 4000))
    assert(partitions.lateBefore(Side.Left) == 3900)
    assert(partitions.left.condition("b").get == PartitionCondition.Excluded)
    partitions.batch("b" -> 3899)(): Unit
    assert(partitions.left.condition("b").get == PartitionCondition.Excluded)
    partitions.batch("b" -> 3900)(): Unit
    assert(partitions.left.condition("b").get == PartitionCondition.Running)
  }

  test("late rows, and rows that jump back by more than the sync delay, are counted") {
    val reading = new PartitionReading("a", 100, 10, 95, 95)
    Seq(90L, 89, 94, 95, 120, 110, 109, 121).foreach(reading.see)
    assert(reading.read == PartitionRead("a", 121, rows = 8, jumps = 2, late = 3))
    val first = new PartitionReading("b", Unknown, 10, Unknown, Unknown)
    Seq(5L, -6).foreach(first.see)
    assert(first.read == PartitionRead("b", 5, 2, 1, 0))
  }

  test("right rows that may have missed their left row are counted") {
    val partitions = new SyncPartitions(settings.copy(window = 4))
    partitions.batch("l" -> 100)("a" -> 100): Unit
    assert(partitions.lateBefore(Side.Right) == 90 && partitions.missedBefore(Side.Right) == 94)
    assert(partitions.missedBefore(Side.Left) == partitions.lateBefore(Side.Left))
    val reading = new PartitionReading("a", 100, 10, 90, 94)
    Seq(100L, 94, 93, 90, 89).foreach(reading.see)
    assert(reading.read == PartitionRead("a", 100, rows = 5, jumps = 3, late = 1))
    val none = new SyncPartitions(settings)
    assert(Side.values.forall(none.missedBefore(_) == Unknown))
  }
}
