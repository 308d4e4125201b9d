package io.tailrace.rescale

import io.tailrace.label.JoinOptions
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Engaged, Served, SparkSuite, StreamHarness, Version}

/** What a label join knows of late labels and of versions goes along to another number of partitions. */
final class RescaledLabelsSuite extends SparkSuite {
  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)

  private def query(o: JoinOptions)(body: (StreamHarness, Int => Unit) => Unit): Unit =
    withConf("spark.sql.shuffle.partitions" -> 2) {
      withDirectory { directory =>
        val h = new StreamHarness(spark, directory)(join(o)).start()
        def rescale(partitions: Int): Unit = {
          h.stop()
          new Rescale(spark, directory.getPath, partitions).run()
          h.start()
          ()
        }
        body(h, rescale)
      }
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
}
