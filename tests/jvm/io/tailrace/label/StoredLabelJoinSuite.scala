package io.tailrace.label

import io.tailrace.join.JoinMetrics
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{micros, seconds}
import io.tailrace.testkit.{Emitted, Engaged, Served, SparkSuite, StreamHarness}

/** Which rows come out and when, on small streams written by hand. */
class StoredLabelJoinSuite extends SparkSuite {
  private def harness(o: JoinOptions, delay: String = "0 seconds")(body: StreamHarness => Unit): Unit =
    withDirectory(d => body(new StreamHarness(spark, d)(join(o, delay, delay)).start()))

  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)
  private def pair(l: Int, r: Int) = Emitted("k", Some(l), Seq(r))
  private def group(l: Int, r: Int*) = Emitted("k", Some(l), r)

  // The worked example. A = 3, a = 4, B = 5, b = 6, the second A = 7, by the time of their arrival.
  private val table = Seq(
    1 -> Left(Served(null, seconds(1), 1)),
    2 -> Right(Engaged(null, seconds(2), 2)),
    3 -> Left(served(3, 3)),
    4 -> Right(engaged(4, 4)),
    5 -> Left(served(5, 5)),
    6 -> Right(engaged(6, 6)),
    7 -> Left(served(7, 7))
  )

  test("the worked example, inner: each pair comes out at the arrival that completes it") {
    harness(options("10 seconds").copy(how = "inner", before = "10 seconds")) { h =>
      val arrivals = table.map {
        case (t, Left(l)) => t -> h.left(l).flatten
        case (t, Right(r)) => t -> h.right(r).flatten
      }.toMap
      assert(
        arrivals == Map(
          1 -> Nil,
          2 -> Nil,
          3 -> Nil,
          4 -> Seq(pair(3, 4)),
          5 -> Seq(pair(5, 4)),
          6 -> Seq(pair(3, 6), pair(5, 6)),
          7 -> Seq(pair(7, 4), pair(7, 6))
        )
      )
    }
  }

  test(
    "the worked example, left: nothing comes out at the arrivals, and one row per left row at its expiry"
  ) {
    harness(options("10 seconds").copy(before = "10 seconds")) { h =>
      table.foreach {
        case (_, Left(l)) => assert(h.left(l).flatten.isEmpty)
        case (_, Right(r)) => assert(h.right(r).flatten.isEmpty)
      }
      val out = h.step(Seq(served(100, 100, "end")), Seq(engaged(100, 100, "end"))).flatten
      assert(
        out.toSet == Set(Emitted(null, Some(1), Nil), group(3, 4, 6), group(5, 4, 6), group(7, 4, 6)) &&
          out.size == 4
      )
      assert(h.total(JoinMetrics.NullKeyRightRows) == 1)
    }
  }

  test(
    "a left row comes out in the first batch after the watermark has reached its time plus after, not before"
  ) {
    harness(options("30 seconds")) { h =>
      assert(h.step(Seq(served(0, 1)), Seq(engaged(10, 2))) == Seq(Nil, Nil))
      // One microsecond short: Spark's watermark is in milliseconds.
      assert(
        h.step(Seq(Served("x", micros(29999999), 8)), Seq(Engaged("x", micros(29999999), 9))).flatten.isEmpty
      )
      // The watermark moves behind the batch that brings the time, so the next one, without data, gives the
      // row.
      assert(
        h.step(Seq(served(30, 10, "x")), Seq(engaged(30, 11, "x"))) == Seq(Nil, Seq(group(1, 2)))
      )
    }
  }

  test("without no-data micro-batches, a left row comes out with the next data") {
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> false) {
      harness(options("30 seconds")) { h =>
        assert(h.step(Seq(served(0, 1)), Seq(engaged(10, 2))) == Seq(Nil))
        assert(h.step(Seq(served(40, 3)), Seq(engaged(40, 4))) == Seq(Nil))
        assert(h.left(served(41, 5)) == Seq(Seq(group(1, 2))))
      }
    }
  }

  test("the join follows the watermark of the slower side") {
    harness(options("5 seconds")) { h =>
      assert(h.left(served(0, 1), served(1000, 2)).flatten.isEmpty)
      assert(h.right(engaged(4.999, 3)).flatten.isEmpty)
      assert(h.right(engaged(5, 4)) == Seq(Nil, Seq(group(1, 3, 4))))
    }
  }

  test("both ends of the window are included, to the microsecond") {
    harness(options("3 seconds").copy(before = "2 seconds")) { h =>
      val labels = Seq(-2000001, -2000000, 3000000, 3000001).map(t => Engaged("k", micros(10000000L + t), t))
      h.step(Seq(served(10, 1)), labels)
      assert(h.step(Seq(served(50, 2)), Seq(engaged(50, 3))).flatten == Seq(group(1, -2000000, 3000000)))
    }
  }

  test("a window of zero matches equal times only") {
    harness(options("0 seconds")) { h =>
      h.step(
        Seq(served(10, 1)),
        Seq(Engaged("k", micros(9999999), 2), engaged(10, 3), Engaged("k", micros(10000001), 4))
      )
      assert(h.all == Seq(group(1, 3)))
    }
  }

  test("equal timestamps and exact duplicates stay apart on both sides") {
    val (l, r) = (served(10, 1), engaged(12, 2))
    harness(options("5 seconds"), delay = "10 seconds") { h =>
      h.step(Seq(l, l), Seq(r, r))
      h.step(Seq(l), Seq(r, engaged(12, 3)))
      h.step(Seq(served(50, 9)), Seq(engaged(50, 9)))
      assert(h.all == Seq.fill(3)(group(1, 2, 2, 2, 3)))
    }
    harness(options("5 seconds").copy(how = "inner")) { h =>
      h.step(Seq(l, l), Seq(r, r))
      assert(h.all == Seq.fill(4)(pair(1, 2)))
    }
  }

  test("labels are ordered by their time, then by the bytes of the row, whatever the order of arrival") {
    harness(options("20 seconds")) { h =>
      h.right(engaged(12, 7))
      h.step(Seq(served(10, 1)), Seq(engaged(15, 3), engaged(12, 5)))
      h.right(engaged(15, 2))
      assert(h.step(Seq(served(50, 9)), Seq(engaged(50, 9))).flatten == Seq(group(1, 5, 7, 2, 3)))
    }
  }

  test(
    "a left row without a time comes out at once with an empty group, a right row is dropped and counted"
  ) {
    harness(options("20 seconds")) { h =>
      assert(
        h.step(Seq(Served("k", null, 1)), Seq(Engaged("k", null, 2), engaged(1, 3))) == Seq(Seq(group(1)))
      )
      assert(h.total(JoinMetrics.NullKeyRightRows) == 1)
      assert(h.total(LabelMetrics.GroupsUnmatched) == 1 && h.total(JoinMetrics.NullKeyLeftRows) == 0)
    }
    harness(options("20 seconds").copy(how = "inner")) { h =>
      assert(h.step(Seq(Served("k", null, 1)), Seq(Engaged("k", null, 2), engaged(1, 3))).flatten.isEmpty)
      assert(h.step(Seq(Served(null, seconds(2), 4), Served("k", seconds(2), 5)), Nil).flatten.isEmpty)
      assert(h.total(JoinMetrics.NullKeyLeftRows) == 2 && h.total(JoinMetrics.NullKeyRightRows) == 1)
    }
  }

  test("a null key doesn't match the least value of its type") {
    // "" is encoded as zeros: null keys are among them when a batch is sorted by key.
    harness(options("20 seconds")) { h =>
      h.step(
        Seq(Served("", seconds(1), 1), Served(null, seconds(2), 2), Served("", seconds(3), 3)),
        Seq(Engaged("", seconds(4), 4), Engaged(null, seconds(5), 5))
      )
      val out = h.step(Seq(served(90, 9)), Seq(engaged(90, 9))).flatten
      assert(
        out.toSet == Set(
          Emitted("", Some(1), Seq(4)),
          Emitted(null, Some(2), Nil),
          Emitted("", Some(3), Seq(4))
        )
      )
    }
  }
}
