package io.tailrace.sync

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Policy

/** Batches of a synced join that are told what was read of each partition. */
abstract class PartitionRulesSuite extends AnyFunSuite {
  // A batch a millisecond: too long is being missed by three.
  protected val settings = SyncMatrixSuite.settings.copy(stallAfterMs = 3)
  protected val excluding = settings.copy(onStall = Policy.Exclude)
  protected var clock = 0L

  protected def reads(times: (String, Long)*): Seq[PartitionRead] =
    times.map { case (name, time) => PartitionRead(name, time, 1, 0, 0) }

  protected implicit class Batches(partitions: SyncPartitions) {
    def batch(left: (String, Long)*)(right: (String, Long)*): SyncTimes = listed(None, left: _*)(right: _*)

    def listed(
        all: Option[Seq[ListedPartition]],
        left: (String, Long)*
    )(right: (String, Long)*): SyncTimes = {
      clock += 1
      partitions.advance(SideBatch(reads(left: _*), None), SideBatch(reads(right: _*), all), clock)
      partitions.times
    }
  }

  protected def restarted(partitions: SyncPartitions, settings: SyncSettings = settings): SyncPartitions = {
    val again = new SyncPartitions(settings)
    again.restore(SyncFile.decode(SyncFile.encode(partitions.file, "join/1"), "file", "join/1"))
    again
  }
}
