package io.tailrace.sync

import io.tailrace.sync.SyncTimes.Unknown

/** Partitions of which only filtered records are read, and names of an earlier format. */
final class FilteredPartitionsSuite extends PartitionRulesSuite {

  private def all(b: ListedPartition) = Some(Seq(ListedPartition("a", Some(0L), isRead = true), b))
  private val filtered = ListedPartition("b", Some(0L), isRead = true)

  test("a partition that has given only filtered records to its end is waited for as one that stalls") {
    val partitions = new SyncPartitions(settings)
    assert(partitions.listed(all(filtered), "l" -> 100)("a" -> 100).release == Unknown)
    assert(partitions.right.condition("b").contains(PartitionCondition.Filtered))
    assert(partitions.listed(all(filtered))("a" -> 110).release == Unknown)
    // What isn't read may be a row, or none: that neither counts nor begins anew.
    assert(partitions.listed(all(filtered.copy(unread = Some(5L))))("a" -> 120).release == Unknown)
    assert(partitions.right.condition("b").contains(PartitionCondition.Waiting))
    assert(partitions.listed(all(filtered))("a" -> 130).release == Unknown)
    assert(partitions.right.holder.exists(_.idleMs == 2))
    assert(partitions.listed(all(filtered))("a" -> 200).release == 190)
    assert(partitions.right.condition("b").contains(PartitionCondition.Running))
    assert(partitions.listed(all(filtered))("a" -> 300).release == 290)
    assert(restarted(partitions).file == partitions.file)
    // It isn't read any more: what comes of it may be as old as what came last. It was heard a moment ago,
    // too.
    assert(partitions.listed(all(filtered.copy(isRead = false)))("a" -> 400).release == 290)
    assert(partitions.right.stalled.isEmpty)
    assert(partitions.listed(all(filtered))("a" -> 500).release == 490)
    // A row comes: its partition is where it was, and the join waits for it.
    assert(partitions.listed(all(filtered))("a" -> 600, "b" -> 495).release == 490)
    assert(partitions.listed(all(filtered))("a" -> 700).release == 490)
  }

  test("one filtered record doesn't shorten the wait for its partition") {
    val partitions = new SyncPartitions(settings)
    // The producer of b is behind by a hundred, and the half of its records is filtered.
    (1 to 40).foreach { i =>
      val b = if (i % 2 == 0) Nil else Seq("b" -> (i * 10L))
      partitions.listed(all(filtered), "l" -> i.toLong)(("a" -> (100 + i * 10L)) +: b: _*): Unit
      assert(partitions.right.low == (if (i % 2 == 0) i - 1 else i) * 10L, i)
    }
  }

  test(
    "without stall_after the join waits for a filtered partition, and tells so"
  ) {
    val partitions = new SyncPartitions(settings.copy(liftsFiltered = false))
    (1 to 20).foreach { i =>
      assert(partitions.listed(all(filtered), "l" -> i.toLong)("a" -> (100L + i)).release == Unknown)
      assert(
        partitions.stalled.map(_._2).filter(_.partition == "b").map(_.condition) ==
          (if (i > 3) Seq(PartitionCondition.Filtered) else Nil),
        i
      )
    }
  }

  test("a new start knows for how long a partition has given only filtered records") {
    val first = new SyncPartitions(settings)
    (1 to 3).foreach(i => first.listed(all(filtered), "l" -> 1)("a" -> (100L + i)))
    val second = restarted(first)
    assert(second.listed(all(filtered))("a" -> 110).release == Unknown)
    assert(second.listed(all(filtered))("a" -> 120).release == 110)
  }

  test("a partition that had another name in format 1 isn't waited for by that name") {
    val partitions = new SyncPartitions(settings)
    val old = SideState(
      100,
      Seq("eu-west-1", "null", "us-1").map(PartitionState(_, 100, 0, excluded = false, isFormer = true))
    )
    partitions.restore(SyncFile(SyncTimes(90, 90), SideState(100, Nil), old))
    def batch(name: String, formerly: Option[String], time: Long): SyncTimes = {
      val read = PartitionRead(name, time, 1, 0, 0, formerly = formerly)
      partitions.advance(SideBatch(reads("l" -> 1000L), None), SideBatch(Seq(read), None), 0)
      partitions.times
    }
    assert(batch("eu-west%2D1", Some("eu-west-1"), 200).release == 90)
    assert(partitions.right.partitions.map(_.name).toSet == Set("eu-west%2D1", "null", "us-1"))
    batch("us-1", None, 210): Unit
    assert(batch("%", Some("null"), 220).release == 190)
    // It is there, too.
    assert(batch("eu-west-1", None, 150).release == 190)
    batch("eu-west%2D1", Some("eu-west-1"), 230): Unit
    assert(partitions.right.partitions.map(_.name).toSet == Set("eu-west%2D1", "%", "us-1", "eu-west-1"))
  }
}
