package io.tailrace.label

import scala.util.Random

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{micros, seconds}
import io.tailrace.testkit._

/** Where the data breaks the promise of `one_to_one`, the pairs of a key with many rows don't depend on the memory. */
final class OneToOneSuite extends SparkSuite with SlowSuite {
  private type Batch = (Seq[Served], Seq[Engaged])

  // Of the rows of a micro-batch that are held at a time.
  private val sizes = Seq(1, 100, 1000, 10000, 1 << 20)

  private def query(seconds: Int, delay: Int, bufferBytes: Int)(body: StreamHarness => Unit): Unit =
    withDirectory { d =>
      withConf(TailraceConf.BatchBufferBytes.key -> bufferBytes, TailraceConf.CompactionRuns.key -> 2) {
        val o = options(s"$seconds seconds").copy(before = "3 seconds", how = "inner", oneToOne = true)
        body(new StreamHarness(spark, d)(join(o, s"$delay seconds", s"$delay seconds")).start())
      }
    }

  sizes.foreach { bytes =>
    test(s"a right row gets the earliest left row, which came later than many others: $bytes bytes") {
      query(1000, 1000, bytes) { h =>
        h.left((1 to 80).map(i => Served("k", seconds(100.0 + i), i)): _*)
        h.left(Served("k", seconds(99), 81))
        assert(h.right(Engaged("k", seconds(200), 1)).flatten.map(_.id.get) == Seq(81))
        assert(h.total(LabelMetrics.MatchesDropped) == 80)
        // And those of one time by their content.
        h.left((85 to 82 by -1).map(i => Served("k", seconds(98), i)): _*)
        assert(h.right((2 to 3).map(Engaged("k", seconds(200), _)): _*).flatten.map(_.id.get) == Seq(82, 83))
      }
    }
  }

  /** Most rows have one key. Each second one has a time that others have, too. */
  private def batches(seed: Int): Seq[Batch] = {
    val random = new Random(seed * 7919L + 17)
    val ids = Iterator.from(1)
    def key() =
      if (random.nextInt(10) < 8) "a hot key that is longer than a prefix" else s"key ${random.nextInt(3)}"
    def time(i: Int) = {
      val second = 10 * i + random.nextInt(20)
      if (random.nextBoolean()) seconds(second.toDouble)
      else micros(second * 1000000L + random.nextInt(1000000))
    }
    def many() = Seq(0, 5, 60, 150)(random.nextInt(4))
    (0 until 5).map { i =>
      val served = Seq.fill(many() + 1)(Served(key(), time(i), ids.next()))
      served -> Seq.fill(many())(Engaged(key(), time(i), ids.next()))
    }
  }

  private def run(seed: Int): Unit = {
    val after = Seq(2, 8, 1000)(seed % 3)
    sizes.foreach { bytes =>
      query(after, 30, bytes) { h =>
        val oracle =
          new JoinOracle(
            3000000L,
            after * 1000000L,
            grouped = false,
            delays = (30000, 30000),
            oneToOne = true
          )
        var leftOut = 0L
        batches(seed).zipWithIndex.foreach { case ((served, engaged), i) =>
          if (i == 3) {
            leftOut = h.total(LabelMetrics.MatchesDropped)
            h.restart()
            oracle.restart()
          }
          assert(
            h.step(served, engaged) == oracle.step(served, engaged),
            s"seed $seed, batch $i, $bytes bytes"
          )
        }
        assert(
          leftOut + h.total(LabelMetrics.MatchesDropped) == oracle.matchesDropped,
          s"seed $seed, $bytes bytes"
        )
      }
    }
  }

  Campaign.sizes(1, 6).foreach { case (count, tags) =>
    test(
      s"pairs and counts of a hot key are those of the oracle, whatever the memory: $count seeds",
      tags: _*
    ) {
      (0 until count).foreach(run)
    }
  }
}
