package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{CampaignSuite, JoinData, JoinFixture}

/** One key with all right rows of a partition, and few left rows, each of whose windows has a part of them. The right rows
  * are several times the memory. Right row `i` has the `i`-th moment, so that the answer is a stretch of numbers:
  *
  * {{{
  *   right rows   0 1 2 3 4 5 6 7 8 9 ...      in 8 micro-batches, out of order in each
  *   left row     2 ├───────┤                  expects 2 to 6
  * }}}
  *
  * The short form has 200,000 right rows in 10 MiB. `TAILRACE_LABELS=10000000` has them in 512 MiB.
  */
final class HotKeyCampaignSuite extends AnyFunSuite with JoinFixture with CampaignSuite {
  private val rights = sys.env.get("TAILRACE_LABELS").fold(200 * 1000)(_.toInt)
  private val memory = (rights.toLong << 20) * 512 / 10000000
  private val lefts = 200
  private val batches = 8
  private val start = 1700000000000000L
  private val moment = 1000L
  private val inWindow = rights / 50
  private val pad = UTF8String.fromBytes(new Array[Byte](100))

  private def firstOf(left: Int): Int = (left.toLong * (rights - 1) / lefts).toInt
  private def row(time: Int, id: Int): InternalRow = InternalRow(7L, start + time * moment, id, pad)

  /** The right rows of a micro-batch; neighbours are far from each other. */
  private def rightRows(batch: Int): Iterator[InternalRow] = {
    val from = (rights.toLong * batch / batches).toInt
    val count = (rights.toLong * (batch + 1) / batches).toInt - from
    (0 until count).iterator.map { i =>
      // A prime that no count of the suite is a multiple of.
      val id = from + (i * 7919L % count).toInt
      row(id, id)
    }
  }

  private def leftRows(batch: Int): Iterator[InternalRow] =
    (0 until lefts).iterator
      .filter(left => firstOf(left).toLong * batches / rights == batch)
      .map(left => row(firstOf(left), left))

  private def check(strategy: MatchStrategy, maxMatches: Option[Int]): Unit = {
    val settings = JoinSettings(
      JoinWindow(0, (inWindow - 1) * moment),
      JoinOutput.Grouped,
      OneGroup(MatchPolicy.All, maxMatches),
      marksLate = false,
      strategy
    )
    val data = JoinData(0, lefts, rights, keys = 1, span = rights * moment)
    val metrics = joinMetrics()
    val provider = newProvider()
    val seen = new Array[Boolean](lefts)
    // The last one has no rows: all that is left comes out.
    (0 to batches).foreach { batch =>
      val watermark =
        if (batch < batches) start + rights * moment * batch / batches - 1 else Long.MaxValue / 4
      val manager = TaskMemory.create(memory)
      val store = open(provider, batch.toLong)
      val task =
        taskOf(data, settings, store, manager, if (batch == 0) JoinWindow.NoWatermark else watermark, metrics)
      val (left, right) =
        if (batch < batches) (leftRows(batch), rightRows(batch)) else (Iterator.empty, Iterator.empty)
      task.output(left, right).foreach { out =>
        val id = out.getInt(2)
        assert(!seen(id), s"left row $id twice")
        seen(id) = true
        val group = out.getArray(4)
        val matches = Math.min(inWindow, rights - firstOf(id))
        assert(group.numElements() == maxMatches.fold(matches)(Math.min(_, matches)), s"left row $id")
        (0 until group.numElements()).foreach { i =>
          if (group.getStruct(i, 3).getInt(1) != firstOf(id) + i) fail(s"left row $id, label $i")
        }
      }
      task.expire()
      task.close()
      assert(manager.getMemoryConsumptionForThisTask == 0, "bytes of task memory are still taken")
      store.commit()
      store.abort()
    }
    assert(seen.forall(identity))
    assert(rights * 124L > memory, "the right rows fit into memory, so the test says nothing")
  }

  Seq(MatchStrategy.Lazy, MatchStrategy.Eager).foreach { strategy =>
    Seq(None, Some(1000)).foreach { most =>
      test(
        s"$rights labels of one key in ${memory >> 20} MiB: ${strategy.name}, max_matches=${most.getOrElse("none")}"
      ) {
        check(strategy, most)
      }
    }
  }
}
