package io.tailrace.label

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.lit

import io.tailrace.api.Tailrace
import io.tailrace.common.{TailraceAnalysisException, TailraceConf}
import io.tailrace.join.JoinMetrics
import io.tailrace.ops.erase.{Erase, EraseOptions}
import io.tailrace.ops.rescale.Rescale
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Amended, Engaged, Served, SparkSuite, StreamHarness}

/** A late right row amends a left row that has come out. */
class AmendmentsSuite extends SparkSuite {
  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)
  private val after10 = options("10 seconds").copy(releaseEvery = Some("batch"))
  private val amending = after10.copy(amendFor = Some("60 seconds"))

  private def query(o: JoinOptions, settings: (String, Any)*)(body: StreamHarness => Unit): Unit =
    withConf(settings: _*) {
      withDirectory(d => body(new StreamHarness(spark, d)(join(o)).start()))
    }

  private def watermark(h: StreamHarness, second: Double): Unit = {
    h.step(Seq(served(second, 0, "-")), Seq(engaged(second, 0, "-")))
    ()
  }

  /** The rows of key k that the batches gave that ran for some right rows. */
  private def amended(h: StreamHarness, rows: Engaged*): Seq[Amended] =
    h.rows(Nil, rows).flatten.map(Amended.of).filter(_.key.contains("k"))

  private def amendment(t: Double, labels: Int*) =
    Amended(Some("k"), Some(seconds(t)), None, labels, None, Some("amended"))

  /** Left rows at 92 and 95 have come out, with the right row of 93. */
  private def out(h: StreamHarness): Unit = {
    h.step(Seq(served(92, 1), served(95, 2)), Seq(engaged(93, 10)))
    watermark(h, 110)
  }

  test("a late right row gives the groups of the left rows that it matches once more") {
    query(amending) { h =>
      out(h)
      assert(amended(h, engaged(94, 11)) == Seq(amendment(92, 10, 11)))
      assert(
        amended(h, engaged(96, 12), engaged(97, 13)).toSet ==
          Set(amendment(92, 10, 11, 12, 13), amendment(95, 12, 13))
      )
      assert(amended(h, engaged(110, 14), engaged(80, 15)) == Nil)
      assert(h.total(LabelMetrics.AmendmentsEmitted) == 3 && h.total(LabelMetrics.LateRightRowsAccepted) == 5)
      assert(h.total(LabelMetrics.LateRightRows) == 0 && h.dropped == 0)
      // As of a key that nobody has.
      assert(h.total(LabelMetrics.GroupsEmitted) == 2)
    }
  }

  test("what comes when the watermark has reached the end of the window and amend_for is late") {
    query(amending) { h =>
      out(h)
      watermark(h, 163)
      // 92, its window and a minute end at 162, those of 95 at 165.
      assert(amended(h, engaged(96, 11)) == Seq(amendment(95, 11)))
      watermark(h, 165)
      assert(amended(h, engaged(95, 12)) == Nil)
      assert(h.total(LabelMetrics.LateRightRows) == 1 && h.dropped == 1)
    }
  }

  test("only a group that has changed comes out") {
    query(amending.copy(`match` = "first")) { h =>
      out(h)
      assert(amended(h, engaged(94, 11)) == Nil)
      assert(amended(h, engaged(92.5, 12)) == Seq(amendment(92, 12)))
    }
    query(amending.copy(maxMatches = Some(1))) { h =>
      out(h)
      assert(amended(h, engaged(94, 11)) == Seq(amendment(92, 10).copy(truncated = Some(true))))
      assert(amended(h, engaged(94.5, 12)) == Nil)
    }
  }

  test("a left row that waits for its step gets a late row, and isn't amended") {
    query(amending.copy(releaseEvery = Some("1000 seconds")), "spark.sql.shuffle.partitions" -> 1) { h =>
      watermark(h, 80)
      out(h)
      assert(amended(h, engaged(96, 11)) == Nil)
      // Behind by more than amend_for.
      watermark(h, 170)
      assert(amended(h, engaged(96, 12)) == Nil)
      watermark(h, 2000)
      val groups = h.all.filter(_.key == "k").map(e => e.id.get -> e.labels)
      assert(groups == Seq(1 -> Seq(10, 11), 2 -> Seq(11)))
      assert(h.total(LabelMetrics.AmendmentsEmitted) == 0)
    }
  }

  test("keys and times are in the state until amend_for has passed, and right rows as long") {
    query(amending, "spark.sql.shuffle.partitions" -> 1) { h =>
      out(h)
      def bytes(name: String) = h.progress().customMetrics.get(name).longValue
      assert(bytes(LabelMetrics.AmendableBytes) > 0)
      assert(h.progress().numRowsTotal == 2 + 1 + 2)
      watermark(h, 1000)
      // Of the last batch's rows alone.
      assert(bytes(LabelMetrics.AmendableBytes) == 0)
      assert(h.progress().numRowsTotal == 2)
    }
    query(after10, "spark.sql.shuffle.partitions" -> 1) { h =>
      out(h)
      assert(h.progress().customMetrics.get(LabelMetrics.AmendableBytes) == 0)
      assert(h.progress().customMetrics.get(JoinMetrics.RightStoreBytes) > 0)
      assert(h.progress().numRowsTotal == 2)
    }
  }

  test(
    "amend_for may be given, changed and left out at a restart: rows that came out without it aren't amended"
  ) {
    query(after10) { h =>
      out(h)
      h.stop()
      h.start(join(amending)(_, _))
      // The right row of 93 has left the state: a group without it would be wrong.
      assert(amended(h, engaged(96, 11)) == Nil)
      h.step(Seq(served(112, 3)), Seq(engaged(113, 20)))
      watermark(h, 130)
      assert(amended(h, engaged(114, 21)) == Seq(amendment(112, 20, 21)))
      h.stop()
      h.start(join(amending.copy(amendFor = Some("1000 seconds")))(_, _))
      watermark(h, 300)
      assert(amended(h, engaged(115, 22)) == Seq(amendment(112, 20, 21, 22)))
      h.stop()
      h.start(join(amending)(_, _))
      assert(amended(h, engaged(116, 23)) == Nil)
      h.stop()
      h.start(join(amending.copy(amendFor = Some("1000 seconds")))(_, _))
      assert(amended(h, engaged(116, 24)) == Nil)
      h.stop()
      h.start(join(after10)(_, _))
      watermark(h, 301)
      assert(h.progress().customMetrics.get(LabelMetrics.AmendableBytes) == 0)
    }
  }

  test("rows that came out with a shorter window aren't amended when it has grown") {
    query(amending) { h =>
      out(h)
      h.stop()
      h.start(join(amending.copy(after = "30 seconds"))(_, _))
      assert(amended(h, engaged(96, 11), engaged(111, 12)) == Nil)
      h.step(Seq(served(112, 3)), Nil)
      watermark(h, 145)
      assert(amended(h, engaged(140, 13)) == Seq(amendment(112, 13)))
    }
  }

  test("left rows are amended after a rescaling, once each") {
    withDirectory { directory =>
      withConf("spark.sql.shuffle.partitions" -> 4) {
        val o = amending.copy(releaseEvery = Some("7 seconds"))
        val h = new StreamHarness(spark, directory)(join(o)).start()
        val keys = (1 to 16).map(i => s"key $i")
        h.step(keys.zipWithIndex.map { case (k, i) => served(92.0 + i, i, k) }, Nil)
        Seq(100.0, 104.0, 108.0, 113.0).foreach(watermark(h, _))
        val before = h.all.count(_.key.startsWith("key"))
        assert(before > 0 && before < 16)
        Seq(3, 1, 5).foreach { partitions =>
          h.stop()
          new Rescale(spark, directory.getPath, partitions).run()
          h.start()
          h.step(Nil, keys.zipWithIndex.map { case (k, i) => engaged(93.0 + i, partitions, k) })
        }
        watermark(h, 1000)
        val rows = h.allRows.map(Amended.of).filter(_.key.exists(_.startsWith("key")))
        val last = rows.groupMap(_.key.get)(identity)
        assert(last.size == 16)
        last.values.foreach { of =>
          assert(of.head.mark.isEmpty && of.tail.forall(_.mark.contains("amended")))
          assert(of.last.labels == Seq(1, 3, 5))
          assert(of.map(_.labels.size) == of.map(_.labels.size).distinct)
        }
      }
    }
  }

  test("left rows that came out with other columns are amended") {
    query(amending) { h =>
      out(h)
      h.stop()
      h.start((l, r) => join(amending)(l.withColumn("more", lit("x")), r))
      val rows = h.rows(Nil, Seq(engaged(94, 11))).flatten.filter(_.getAs[String]("k") == "k")
      assert(rows.map(Amended.of) == Seq(amendment(92, 10, 11)) && rows.head.isNullAt(3))
    }
  }

  test("a left row that was erased by its key isn't amended") {
    withDirectory { directory =>
      val h = new StreamHarness(spark, directory)(join(amending)).start()
      h.step(Seq(served(92, 1, "k"), served(92, 2, "other")), Nil)
      watermark(h, 110)
      h.stop()
      val report = new Erase(spark, directory.getPath, EraseOptions(Some("k = 'k'"))).run()
      assert(report.sides.find(_.side == "left").map(_.erased).contains(1L))
      h.start()
      val rows = h.rows(Nil, Seq(engaged(94, 11, "k"), engaged(94, 12, "other"))).flatten.map(Amended.of)
      assert(rows.map(_.key) == Seq(Some("other")))
    }
  }

  test("an amendment of a row with horizons is final and changed") {
    query(amending.copy(horizons = Seq("5 seconds"))) { h =>
      out(h)
      val row = h.rows(Nil, Seq(engaged(94, 11))).flatten.find(_.getAs[String]("k") == "k").get
      assert(row.getAs[String]("horizon") == "10 seconds")
      assert(row.getAs[Boolean]("final") && row.getAs[Boolean]("changed"))
      assert(row.getAs[String]("_mark") == "amended")
      assert(row.getSeq[Row](row.fieldIndex("labels")).map(_.getAs[Int]("rid")) == Seq(10, 11))
    }
  }

  test("left rows of hot keys are amended") {
    query(amending.copy(saltedKeys = Seq(Seq("k")), saltBuckets = Some(3))) { h =>
      h.step((0 until 20).map(i => served(92 + i / 10.0, i)), Nil)
      watermark(h, 110)
      val rows = amended(h, engaged(95, 11))
      assert(rows.map(_.time.get).toSet.size == 20 && rows.forall(_.labels == Seq(11)))
    }
  }

  test("a key with more right rows than a buffer holds, and left rows without a key") {
    query(amending, TailraceConf.BatchBufferBytes.key -> 1, "spark.sql.shuffle.partitions" -> 1) { h =>
      h.step(
        Seq(served(92, 1), served(92, 2), served(95, 3), served(92, 4, null)),
        (0 until 50).map(i => engaged(93 + i / 100.0, i))
      )
      watermark(h, 110)
      val now = amended(h, (50 until 100).map(i => engaged(93 + i / 100.0, i)): _*)
      assert(now.map(_.time.get) == Seq(seconds(92), seconds(92)))
      assert(now.forall(_.labels == (0 until 100)))
    }
  }

  test("beside on_late = mark, a right row that amends isn't marked") {
    query(amending.copy(onLate = "mark")) { h =>
      out(h)
      assert(
        amended(h, engaged(94, 11), engaged(30, 12)).toSet ==
          Set(amendment(92, 10, 11), Amended(Some("k"), None, None, Seq(12), None, Some("late_right")))
      )
    }
  }

  test("all left columns but keys and time may be null then") {
    import spark.implicits._
    val (left, right) = (Seq(served(1, 1)).toDF(), Seq(engaged(1, 1)).toDF())
    val joined = Tailrace.join(left, right, Seq("k" -> "k"), amending)
    assert(joined.columns.toSeq == Seq("k", "t", "id", "labels", "_mark"))
    assert(joined.schema("id").nullable)
  }

  Seq(
    (amending.copy(amendFor = Some("0 seconds")), "TAILRACE_OPTION_INVALID", "amend_for"),
    (amending.copy(amendFor = Some("-1 hours")), "TAILRACE_OPTION_INVALID", "amend_for"),
    (amending.copy(amendFor = Some("1 month")), "TAILRACE_OPTION_INVALID", "amend_for"),
    (amending.copy(amendFor = Some("soon")), "TAILRACE_OPTION_INVALID", "amend_for"),
    (amending.copy(lateLabels = Some(false)), "TAILRACE_OPTION_CONFLICT", "late_labels"),
    (
      amending.copy(how = "inner", releaseEvery = None),
      "TAILRACE_JOIN_OPTION_CONFLICT",
      "amend_for"
    )
  ).foreach { case (o, condition, argument) =>
    test(s"refused: amend_for=${o.amendFor.get}, late_labels=${o.lateLabels}, how=${o.how}") {
      import spark.implicits._
      val e = intercept[TailraceAnalysisException] {
        Tailrace.join(Seq(served(1, 1)).toDF(), Seq(engaged(1, 1)).toDF(), Seq("k" -> "k"), o)
      }
      assert(e.getCondition == condition && e.getMessage.contains(argument))
    }
  }
}
