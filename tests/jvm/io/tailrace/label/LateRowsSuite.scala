package io.tailrace.label

import org.apache.spark.sql.types._

import io.tailrace.join.JoinMetrics
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{micros, seconds}
import io.tailrace.testkit.{Emitted, Engaged, Served, SparkSuite, StreamHarness}

/** Rows behind the watermark are counted on each side, and come out if asked for. */
class LateRowsSuite extends SparkSuite {
  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)

  /** A query whose watermark has reached second 100 after this. */
  private def at100(o: JoinOptions)(body: StreamHarness => Unit): Unit = withDirectory { d =>
    val h = new StreamHarness(spark, d)(join(o)).start()
    h.step(Seq(served(100, 0, "start")), Seq(engaged(100, 0, "other")))
    body(h)
  }

  // With a window of 10 seconds, those of the left rows have closed, and no left row that waits can match the right one.
  private val late = (Seq(served(90, 1), served(89, 2)), Seq(engaged(90, 3)))
  private val inTime = (
    Seq(Served("k", micros(100000001), 4)),
    Seq(Engaged("k", micros(100000001), 5), Engaged("k", micros(100000002), 6))
  )

  Seq("left", "inner").foreach { how =>
    test(s"rows that are late are dropped and counted by side, others taken in: $how") {
      at100(options("10 seconds").copy(how = how)) { h =>
        h.step(late._1 ++ inTime._1, late._2 ++ inTime._2)
        val progress = h.progress()
        assert(h.total(LabelMetrics.LateLeftRows) == 2)
        assert(h.total(LabelMetrics.LateRightRows) == 1)
        assert(progress.customMetrics.get(JoinMetrics.NullKeyRightRows) == 0)
        assert(h.dropped == 3)
        h.step(Seq(served(200, 7, "x")), Seq(engaged(200, 8, "y")))
        assert(h.all.filter(_.key == "k").flatMap(e => e.labels.map(e.id.get -> _)) == Seq(4 -> 5, 4 -> 6))
      }
    }
  }

  test("dropped rows are counted once if one task runs several partitions") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)((l, r) => join(options("10 seconds"))(l, r).coalesce(1)).start()
      h.step(Seq(served(100, 0)), Seq(engaged(100, 0)))
      val keys = ('a' to 'j').map(_.toString)
      h.step(keys.map(served(1, 1, _)), keys.map(engaged(1, 2, _)))
      assert(h.total(LabelMetrics.LateLeftRows) == 10)
      assert(h.dropped == 20)
    }
  }

  test(
    "left, on_late = mark: a late left row comes out with an empty group, a late right row in a group"
  ) {
    at100(options("10 seconds").copy(onLate = "mark", maxMatches = Some(5))) { h =>
      val first = h.rows(late._1, late._2).head
      assert(
        first.map(Emitted.of).toSet == Set(
          Emitted("k", Some(1), Nil, Some(false), Some("late_left")),
          Emitted("k", Some(2), Nil, Some(false), Some("late_left")),
          Emitted("k", None, Seq(3), Some(false), Some("late_right"))
        ) && first.size == 3
      )
      val right = first.find(_.isNullAt(2)).get
      assert(right.isNullAt(1) && right.getAs[String]("k") == "k")
      assert(h.dropped == 0)
      assert(h.total(LabelMetrics.LateLeftRows) == 2 && h.total(LabelMetrics.LateRightRows) == 1)
    }
  }

  test("inner, on_late = mark: a late row comes out marked, with nulls for the other side") {
    at100(options("10 seconds").copy(how = "inner", onLate = "mark")) { h =>
      val out = h.rows(late._1 ++ inTime._1, late._2 ++ inTime._2.take(1)).head
      assert(
        out.map(Emitted.of).toSet == Set(
          Emitted("k", Some(1), Nil, None, Some("late_left")),
          Emitted("k", Some(2), Nil, None, Some("late_left")),
          Emitted("k", None, Seq(3), None, Some("late_right")),
          Emitted("k", Some(4), Seq(5))
        ) && out.size == 4
      )
    }
  }

  test("a right row with a null key is counted as a null key, not as late") {
    at100(options("10 seconds").copy(onLate = "mark")) { h =>
      assert(h.step(Nil, Seq(engaged(1, 1, null))).flatten.isEmpty)
      assert(h.total(LabelMetrics.LateRightRows) == 0 && h.total(JoinMetrics.NullKeyRightRows) == 1)
    }
  }

  test("the added columns are the group, then the truncation flag of a cap, then _mark of late rows") {
    import spark.implicits._
    val (l, r) = (Seq.empty[Served].toDF(), Seq.empty[Engaged].toDF())
    def schema(o: JoinOptions) = io.tailrace.api.Tailrace.join(l, r, Seq("k" -> "k"), o).schema
    val element = new StructType().add("rt", TimestampType).add("rid", IntegerType, nullable = false)
    val left =
      new StructType().add("k", StringType).add("t", TimestampType).add("id", IntegerType, nullable = false)
    val group = StructField("labels", ArrayType(element, containsNull = false), nullable = false)
    def flag(name: String) = StructField(name, BooleanType, nullable = false)
    val o = options("1 second")
    assert(schema(o) == left.add(group))
    assert(schema(o.copy(maxMatches = Some(1))) == left.add(group).add(flag("labels_truncated")))
    // A late right row has no left row.
    val noLeft = StructType(left.map(_.copy(nullable = true)))
    assert(
      schema(o.copy(maxMatches = Some(1), onLate = "mark", into = "found")) ==
        noLeft.add(group.copy(name = "found")).add(flag("found_truncated")).add("_mark", StringType)
    )
    val inner = o.copy(how = "inner")
    assert(schema(inner) == StructType(left ++ element))
    assert(
      schema(inner.copy(onLate = "mark")) ==
        StructType(noLeft ++ element.map(_.copy(nullable = true))).add("_mark", StringType)
    )
  }
}
