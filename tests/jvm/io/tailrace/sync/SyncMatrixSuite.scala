package io.tailrace.sync

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Policy
import io.tailrace.common.Side
import io.tailrace.common.Side.{Left, Right}
import io.tailrace.sync.MiniJoin.NoRow

/** Each condition of a partition, on either side, with a restart in the middle and without. Checks the name of
  * the condition, how far the join is, and that all rows come out when the partition moves on, or leaves.
  *
  * In batch k of four, the other partitions are read up to 100 (k + 1). Pairs 1 to 4 have a left row at
  * 100 k + 10 and a right row at 100 k + 15, in partition 1 of the side if that gives rows, else in 0.
  */
final class SyncMatrixSuite extends AnyFunSuite {
  import SyncMatrixSuite._

  private val rows = Seq(
    Row("running", gives = 1 to 4, read = Seq(1, 2, 3, 4), Always, "running", low = 500),
    Row("slow", gives = 1 to 4, read = Seq(0, 1, 1, 2), Always, "slow", low = 300),
    Row("not read", gives = 1 to 4, read = Seq(0, 0, 0, 0), Always, "slow", low = 100),
    Row("stalled", gives = Nil, read = Seq(0, 0, 0, 0), Always, "stalled", low = 100, stallAfterMs = 2),
    Row("idle", gives = Nil, read = Seq(0, 0, 0, 0), Always, "idle", low = 100),
    Row("finished", gives = 1 to 2, read = Seq(1, 2, 2, 2), _ < 3, "gone", low = 500),
    Row("new", gives = 3 to 4, read = Seq(0, 0, 3, 4), _ >= 2, "running", low = 500),
    Row("new and silent", gives = Nil, read = Seq(0, 0, 0, 0), _ >= 2, "waiting", low = 200),
    Row("removed", gives = 1 to 4, read = Seq(1, 1, 1, 1), _ < 3, "gone", low = 500)
  )

  for {
    row <- rows
    side <- Side.values
    restarts <- Seq(false, true)
  } test(s"${row.name}, ${side.name}${if (restarts) ", with a restart" else ""}") {
    val world = new World(row, side)
    (1 to 4).foreach { k =>
      if (restarts && k == 3) world.join.restart()
      world.batch(k)
    }
    val partitions = world.join.partitions(side)
    assert(partitions.condition("1").fold("gone")(_.name) == row.condition)
    assert(partitions.condition("0").contains(PartitionCondition.Running))
    val times = world.join.times
    side match {
      case Right => assert(times == SyncTimes(row.low - SyncDelay, row.low - SyncDelay))
      case Left => assert(times == SyncTimes(500 - SyncDelay, Math.min(row.low, 500 - SyncDelay)))
    }

    world.finish()
    (1 to 4).foreach { id =>
      val both = Side.values.forall(s => world.wasRead(s -> id))
      assert(world.join.out(id) == (if (world.wasRead(Left -> id)) 1 else 0), id)
      assert(world.join.matched(id) == both, id)
    }
    assert(Side.values.forall(world.join.heldRows(_) == 0))
    assert(world.join.late == 0 && world.join.jumps == 0)
  }

  private final class World(row: Row, side: Side) {
    val join = new MiniJoin(settings.copy(stallAfterMs = row.stallAfterMs), 5)
    var wasRead = Set.empty[(Side, Int)]
    private var pairsRead = 0

    def batch(k: Int): Unit = {
      Side.values.foreach { s =>
        if (s != side || !row.gives.contains(k)) read(s, "0", k)
        join.read(s, "0", NoRow, (k + 1) * 100L)
        if (s != side) join.read(s, "1", NoRow, (k + 1) * 100L)
      }
      val until = row.read(k - 1)
      if (k == 1 && row.listed(1)) join.read(side, "1", NoRow, 100)
      readOwn(until)
      end(k, k)
    }

    private def readOwn(until: Int): Unit = {
      (pairsRead + 1 to until).filter(row.gives.contains).foreach { id =>
        read(side, "1", id)
        join.read(side, "1", NoRow, (id + 1) * 100L)
      }
      pairsRead = until
    }

    private def read(side: Side, partition: String, id: Int): Unit = {
      wasRead += side -> id
      join.read(side, partition, id, id * 100L + (if (side == Left) 10 else 15))
    }

    private def end(clock: Int, k: Int): Unit = join.end(
      clock.toLong,
      s => {
        val own = ListedPartition("1", Some(row.gives.count(_ > row.read(k - 1)).toLong))
        val others = Seq("0", "1").map(ListedPartition(_, Some(0L)))
        Some(if (s != side) others else if (row.listed(k)) Seq(others.head, own) else Seq(others.head))
      }
    )

    /** All records are read, and all listed partitions go on. */
    def finish(): Unit = {
      if (row.listed(4)) {
        readOwn(4)
        join.read(side, "1", NoRow, Far)
      }
      Side.values.foreach { s =>
        join.read(s, "0", NoRow, Far)
        if (s != side) join.read(s, "1", NoRow, Far)
      }
      end(5, 4)
      end(6, 4)
    }
  }
}

object SyncMatrixSuite {
  private val SyncDelay = 10L
  private val Far = 100000L
  private val Always: Int => Boolean = _ => true

  /** @param gives  the pairs whose row the partition has
    * @param read   up to which pair it has been read after each batch
    * @param listed whether the source has it in a batch
    * @param low    how far its side is after the fourth batch
    */
  private final case class Row(
      name: String,
      gives: Seq[Int],
      read: Seq[Int],
      listed: Int => Boolean,
      condition: String,
      low: Long,
      stallAfterMs: Long = 1000
  )

  val settings: SyncSettings = SyncSettings(
    name = "sync",
    syncDelay = SyncDelay,
    window = 100,
    onStall = Policy.Pause,
    stallAfterMs = 2000,
    onDuplicate = Policy.Emit,
    emitsUnmatchedRight = false,
    maxBuffered = None
  )
}
