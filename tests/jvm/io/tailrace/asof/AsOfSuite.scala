package io.tailrace.asof

import org.apache.spark.sql.DataFrame

import io.tailrace.api.Tailrace
import io.tailrace.join.JoinMetrics
import io.tailrace.label.JoinOptions
import io.tailrace.testkit.Times.{micros, seconds}
import io.tailrace.testkit._

/** What comes out and when, on small streams written by hand. */
class AsOfSuite extends SparkSuite {
  private val options = AsOfOptions("t", "rt")

  private def asOf(o: AsOfOptions)(served: DataFrame, engaged: DataFrame): DataFrame =
    Tailrace.asOf(
      served.withWatermark("t", "0 seconds"),
      engaged.withWatermark("rt", "0 seconds"),
      Seq("k" -> "k"),
      o
    )

  private def harness(o: AsOfOptions = options)(body: StreamHarness => Unit): Unit =
    withDirectory(d => body(new StreamHarness(spark, d)(asOf(o)).start()))

  private def left(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def right(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)
  private def looked(id: Int, found: Int*) = Looked("k", id, found.headOption)

  private def step(h: StreamHarness)(l: Served*)(r: Engaged*): Seq[Looked] =
    Looked.sorted(h.rows(l, r).flatten.map(Looked.of))

  /** Lets the watermark pass everything up to a time, with rows of other keys. */
  private def pass(h: StreamHarness, t: Double): Seq[Looked] =
    step(h)(left(t, -1, "other"))(right(t, -2, "another")).filterNot(_.id < 0)

  test("a left row is emitted when both sides are complete up to its time, not before") {
    harness() { h =>
      assert(step(h)(left(10, 1))(right(5, 7), right(9, 8)).isEmpty)
      assert(step(h)()(right(9.999, 9)).isEmpty)
      // A right row of its own time counts, too.
      assert(step(h)()(right(10, 10)) == Seq(looked(1, 10)))
    }
  }

  test("of batch DataFrames, a left row whose point is before the first time finds nothing") {
    import spark.implicits._
    def at(more: Long) = s"timestamp_micros(${Long.MinValue}L + $more)"
    val rights = Seq(1, 2).toDF("rid").selectExpr("'k' as k", s"${at(0)} as rt", "rid").where("rid = 1")
    val lefts =
      Seq(4L, 5L).toDF("n").selectExpr("'k' as k", "n", s"timestamp_micros(n - ${Long.MaxValue}L - 1) as t")
    val found = Tailrace
      .asOf(lefts, rights, Seq("k" -> "k"), options.copy(delay = "5 microseconds"))
      .selectExpr("n", "features.rid is not null")
      .as[(Long, Boolean)]
    assert(found.collect().toMap == Map(4L -> false, 5L -> true))
  }

  test("with a delay, a left row comes out that much earlier, in the batch that has it") {
    harness(options.copy(delay = "5 seconds")) { h =>
      // The watermark is at 1, which is after 1 - 5.
      assert(step(h)(left(1, 1))(right(2, 2), right(5, 5), right(6, 6)) == Seq(looked(1)))
      pass(h, 10)
      // The watermark is at 10: left rows up to 15 look at what is complete.
      assert(
        step(h)(left(10.5, 3), left(11, 4), left(15, 5))() == Seq(looked(3, 5), looked(4, 6), looked(5, 6))
      )
      assert(step(h)(left(15.001, 6))().isEmpty)
      assert(pass(h, 11) == Seq(looked(6, 6)))
      assert(h.dropped == 0)
    }
  }

  test("a value whose key is never updated again is still found long after (Feldera #6829)", Slow) {
    withConf("spark.sql.shuffle.partitions" -> 1, "spark.tailrace.state.compactionRuns" -> 2) {
      harness() { h =>
        step(h)()(right(1, 7))
        (1 to 12).foreach(i => pass(h, 100000.0 * i))
        h.restart()
        step(h)(left(2000000, 1))()
        assert(pass(h, 3000000) == Seq(looked(1, 7)))
      }
    }
  }

  test("of right rows of one time the last by content is taken, whatever the order of arrival") {
    harness() { h =>
      step(h)()(right(5, 2), right(5, 9))
      step(h)(left(6, 1))(right(5, 4), right(5, 9), right(4, 11))
      assert(pass(h, 50) == Seq(looked(1, 9)))
      step(h)(left(60, 2))()
      assert(pass(h, 70) == Seq(looked(2, 9)))
    }
  }

  test("updates that arrive out of order are taken by their times") {
    harness() { h =>
      step(h)()(right(30, 3))
      val first = step(h)(left(12, 1), left(25, 2), left(31, 3))(right(20, 2), right(10, 1))
      assert(first == Seq(looked(1, 1), looked(2, 2)))
      assert(pass(h, 50) == Seq(looked(3, 3)))
    }
  }

  test("max_age and delay: both ends are included, to the microsecond") {
    harness(options.copy(maxAge = Some("3 seconds"), delay = "2 seconds")) { h =>
      // The point of a left row at 10 s is 8 s: right rows from 5 s to 8 s.
      def at(k: String, time: Long) = Engaged(k, micros(time), 1)
      val lefts = Seq("a", "b", "c", "d").zipWithIndex.map { case (k, i) => left(10, i, k) }
      val rights = Seq(at("a", 4999999), at("b", 5000000), at("c", 8000000), at("d", 8000001))
      assert(
        step(h)(lefts: _*)(rights: _*) ==
          Seq(Looked("a", 0, None), Looked("b", 1, Some(1)), Looked("c", 2, Some(1)), Looked("d", 3, None))
      )
    }
  }

  test("a newer row that is too old hides none: max_age counts from the newest") {
    harness(options.copy(maxAge = Some("10 seconds"))) { h =>
      step(h)()(right(1, 1), right(5, 2))
      step(h)(left(14, 1), left(15, 2), left(16, 3))()
      assert(pass(h, 50) == Seq(looked(1, 2), looked(2, 2), looked(3)))
      assert(h.progress().numRowsTotal == 1, "only the right row of the key that moved the watermark")
    }
  }

  test("nothing at all, only left rows, only right rows") {
    harness() { h =>
      step(h)(left(1, 1))()
      assert(h.all.isEmpty)
      assert(pass(h, 10) == Seq(looked(1)))
      step(h)()(right(20, 2))
      assert(pass(h, 30).isEmpty)
    }
  }

  test("null keys find nothing, a left row without a time comes out at once, late rows are counted") {
    harness() { h =>
      assert(
        step(h)(Served("k", null, 1), Served(null, seconds(1), 2))(
          Engaged(null, seconds(1), 3),
          Engaged("k", null, 4),
          right(1, 5, "")
        ) == Seq(looked(1), Looked(null, 2, None))
      )
      pass(h, 10)
      assert(step(h)(left(10, 6))(right(10, 7)).isEmpty)
      assert(h.total(JoinMetrics.NullKeyRightRows) == 2)
      assert(h.total(AsOfMetrics.LateLeftRows) == 1 && h.total(AsOfMetrics.LateRightRows) == 1)
      assert(h.total(AsOfMetrics.FeaturesMissing) == 3 && h.dropped == 2)
    }
  }

  test("behind a label join, in one query, rows come out when that has let them go") {
    val labels = JoinOptions("t", "rt", after = "10 seconds", releaseEvery = Some("batch"))
    withDirectory { d =>
      val h = new StreamHarness(spark, d)((served, engaged) => {
        val events = engaged.withWatermark("rt", "0 seconds")
        val labelled = Tailrace.join(served.withWatermark("t", "0 seconds"), events, Seq("k" -> "k"), labels)
        val once = Tailrace.asOf(labelled, events, Seq("k" -> "k"), options)
        Tailrace.asOf(once, events, Seq("k" -> "k"), options.copy(into = "earlier", delay = "5 seconds"))
      }).start()
      def ids(rows: Seq[org.apache.spark.sql.Row]) = rows.filter(_.getAs[Int]("id") >= 0).map { row =>
        def of(name: String) = Option(row.getAs[org.apache.spark.sql.Row](name)).map(_.getAs[Int]("rid"))
        val group =
          row.getAs[collection.Seq[org.apache.spark.sql.Row]]("labels").map(_.getAs[Int]("rid")).toSeq
        (row.getAs[Int]("id"), group, of("features"), of("earlier"))
      }
      // The watermark of the join is that of the query, and that behind it is 10 seconds earlier.
      assert(ids(h.rows(Seq(left(20, 1)), Seq(right(1, 1), right(19, 2), right(25, 3))).flatten).isEmpty)
      assert(ids(h.rows(Seq(left(29.999, 2)), Seq(right(29.999, 4))).flatten).isEmpty)
      h.restart()
      val first = (1, Seq(3, 4), Some(2), Some(1))
      assert(
        ids(h.rows(Seq(left(60, 3)), Seq(right(60, 5))).flatten) == Seq(first, (2, Seq(4), Some(4), Some(2)))
      )
      // Both operators are as far as the watermark: nothing is lost of rows that come out at its edge.
      assert(ids(h.rows(Seq(left(200, 4)), Seq(right(200, 6))).flatten) == Seq((3, Seq(5), Some(5), Some(4))))
      assert(h.dropped == 0)
    }
  }
}
