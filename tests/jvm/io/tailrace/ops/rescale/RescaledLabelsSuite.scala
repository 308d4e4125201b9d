package io.tailrace.ops.rescale

import java.io.File

import io.tailrace.common.TailraceConf
import io.tailrace.label.{JoinOptions, LabelMetrics}
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{
  Emitted,
  Engaged,
  ManualClock,
  Served,
  SlowSuite,
  SparkSuite,
  StreamHarness,
  Version
}

/** What a label join knows of late labels and of versions goes along to another number of partitions. */
final class RescaledLabelsSuite extends SparkSuite with SlowSuite {
  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)

  private def query(o: JoinOptions)(body: (StreamHarness, Int => Unit) => Unit): Unit =
    withDirectory(queryIn(_, o)(body))

  private def queryIn(directory: File, o: JoinOptions, clock: Option[ManualClock] = None)(
      body: (StreamHarness, Int => Unit) => Unit
  ): Unit =
    withConf("spark.sql.shuffle.partitions" -> 2) {
      val h = new StreamHarness(spark, directory, clock)(join(o)).start()
      def rescale(partitions: Int): Unit = {
        h.stop()
        new Rescale(spark, directory.getPath, partitions).run()
        h.start()
        ()
      }
      body(h, rescale)
    }

  private def watermark(h: StreamHarness, second: Double): Unit = {
    h.step(Seq(served(second, 0, "-")), Seq(engaged(second, 0, "-")))
    ()
  }

  test("a left row whose window had closed doesn't get a late label after a rescaling") {
    // Long enough that nothing is released in between, whatever the partition.
    query(options("10 seconds").copy(releaseEvery = Some("1000000 seconds"))) { (h, rescale) =>
      watermark(h, 91)
      h.step(Seq(served(92, 1), served(95, 2)), Seq(engaged(93, 10)))
      watermark(h, 103)
      h.right(engaged(96, 11))
      assert(h.all.forall(_.key != "k"))
      rescale(3)
      watermark(h, 5000000)
      assert(h.all.filter(_.key == "k").map(e => e.id.get -> e.labels) == Seq(1 -> Seq(10), 2 -> Seq(11)))
    }
  }

  test("each version comes out once over a rescaling, and knows what the one before it had") {
    val o =
      options("60 seconds").copy(releaseEvery = Some("batch"), horizons = Seq("10 seconds", "30 seconds"))
    query(o) { (h, rescale) =>
      val keys = (1 to 8).map(i => s"key $i")
      h.step(keys.zipWithIndex.map { case (k, i) => served(100, i, k) }, keys.map(engaged(105, 10, _)))
      watermark(h, 110)
      h.step(Nil, keys.map(engaged(104, 11, _)))
      rescale(5)
      watermark(h, 130)
      rescale(1)
      watermark(h, 1000)
      val versions = h.allRows.filter(_.getAs[String]("k") != "-").map(Version.of)
      val expected = keys.indices.flatMap { i =>
        Seq(
          Version(i, Some("10 seconds"), Seq(10), None, isFinal = false, None, None),
          Version(i, Some("30 seconds"), Seq(11, 10), None, isFinal = false, Some(true), None),
          Version(i, Some("1 minute"), Seq(11, 10), None, isFinal = true, Some(false), None)
        )
      }
      assert(Version.sorted(versions) == Version.sorted(expected))
    }
  }

  private val hour = 60L * 60 * 1000

  /** Rows that come out in an hour without input. */
  private def silence(h: StreamHarness, clock: ManualClock): Seq[Emitted] =
    Emitted.sorted((1 to 8).flatMap { _ =>
      clock.advance(hour / 8)
      h.settle().flatten.map(Emitted.of)
    })

  Seq("lazy", "eager").foreach { strategy =>
    test(s"what silence has let out stays out over a rescaling, and later rows for it are late: $strategy") {
      val o = options("10 seconds").copy(before = "5 seconds", onLate = "mark", idleTimeout = Some("1 hour"))
      withConf(TailraceConf.JoinStrategy.key -> strategy) {
        withClock { (directory, clock) =>
          queryIn(directory, o, Some(clock)) { (h, rescale) =>
            val keys = (1 to 8).map(i => s"key $i")
            watermark(h, 93)
            h.step(keys.zipWithIndex.map { case (k, i) => served(100, i, k) }, keys.map(engaged(97, 10, _)))
            val out = keys.zipWithIndex.map { case (k, i) => Emitted(k, Some(i), Seq(10)) }
            assert(silence(h, clock).filter(_.key != "-") == Emitted.sorted(out))
            rescale(3)
            // The watermark is 97, and right rows of 95 were in time for left rows of 100.
            val late = h.step(keys.map(served(100, 20, _)), keys.map(engaged(95, 21, _))).flatten
            assert(
              late.groupMapReduce(_.mark)(_ => 1)(_ + _) == Map(
                Some("late_left") -> 8,
                Some("late_right") -> 8
              )
            )
            assert(h.step(keys.map(served(100.5, 22, _)), keys.map(engaged(102, 23, _))).flatten.isEmpty)
            rescale(1)
            h.right(engaged(103, 24, "another"))
            val next = silence(h, clock)
            assert(next == Emitted.sorted(keys.map(k => Emitted(k, Some(22), Seq(10, 23)))))
            assert(h.total(LabelMetrics.FlushedByIdleTimeout) == 8 && h.changed.isEmpty)
            rescale(2)
            h.right(engaged(104, 25, "another"))
            assert(silence(h, clock).isEmpty, "nothing waits")
            assert(h.all.count(_.mark.isEmpty) == 16 + h.all.count(_.key == "-"))
          }
        }
      }
    }
  }
}
