package io.tailrace.plan

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.{Campaign, Event, EventStreams, SlowSuite, SparkSuite}

/** A DataFrame that a query uses several times. Spark shuffles it once for all uses. The watermark has to
  * reach the operators of the second use, too, or they keep their rows for good.
  */
class SharedSubplanSuite extends SparkSuite with SlowSuite {
  import Event._

  private val seconds = 10

  private def events(i: Int): Seq[Event] =
    Seq("a", "b").zipWithIndex.map { case (k, n) => at(k, i * 10.0 + n, i * 10 + n) } ++
      Seq(at("a", i * 10.0 + 3, i * 10 + 5, "click"))

  private def options(left: String, right: String, into: String = "labels"): JoinOptions =
    JoinOptions(leftTime = left, rightTime = right, after = s"$seconds seconds", into = into)

  private def marked(frame: DataFrame): DataFrame = frame.withWatermark("t", "0 seconds")

  /** Spark has this function for streams only. */
  private def once(frame: DataFrame): DataFrame =
    if (frame.isStreaming) marked(frame).dropDuplicatesWithinWatermark("id") else frame.dropDuplicates("id")

  private def renamed(frame: DataFrame): DataFrame =
    frame.toDF(frame.columns.map(c => s"r_$c").toIndexedSeq: _*)

  private def labelled(l: DataFrame, r: DataFrame): DataFrame =
    Tailrace.join(marked(l), renamed(marked(r)), Seq("k" -> "r_k"), options("t", "r_t"))

  private def ofKind(frame: DataFrame, kind: String): DataFrame = frame.where(col("kind") === kind)

  private def shown(rows: Seq[Row]): Seq[String] =
    rows.map(_.json).filterNot(_.contains("end-")).sorted

  /** Runs a query on streams, to their end, and on batch DataFrames of the same rows. */
  private def checkStream(query: (DataFrame, DataFrame) => DataFrame): Unit =
    withConf("spark.sql.shuffle.partitions" -> 1)(withDirectory(check(_, query)))

  private def check(d: java.io.File, query: (DataFrame, DataFrame) => DataFrame): Unit = {
    import spark.implicits._
    val h = new EventStreams(spark, d)(query).start()
    val batches = (0 until 3).map(i => (events(i), events(i)))
    batches.zipWithIndex.foreach { case (batch, i) =>
      if (i == 2) h.restart()
      h.add(batch._1, batch._2)
    }
    val ends = Seq(end(1), end(2, "click"))
    h.add(ends, ends)
    val all = batches.flatMap(_._1) ++ ends
    assert(shown(h.all) == shown(query(all.toDF(), all.toDF()).collect().toSeq))
    assert(h.all.nonEmpty && h.dropped == 0)
    // The state of the last rows.
    h.kept.foreach { case (operator, rows) => assert(rows <= 4, s"$operator has kept rows: ${h.kept}") }
  }

  test("a label join joined with itself") {
    checkStream { (l, r) =>
      val a = labelled(l, r)
      Tailrace.join(a, renamed(a), Seq("k" -> "r_k"), options("t", "r_t", "again"))
    }
  }

  test("two label joins of the same DataFrames in one query", Campaign) {
    checkStream { (l, r) =>
      val a = labelled(l, r)
      val b = labelled(l.where(col("id") % 2 === 0), r)
      Tailrace.join(a, renamed(b), Seq("k" -> "r_k"), options("t", "r_t", "again"))
    }
  }

  test("deduplicated events, joined with themselves") {
    checkStream { (e, _) =>
      val own = once(e)
      Tailrace.join(
        ofKind(own, "imp"),
        renamed(ofKind(own, "click")),
        Seq("k" -> "r_k"),
        options("t", "r_t")
      )
    }
  }

  test("counts of windows, joined with themselves", Campaign) {
    checkStream { (e, _) =>
      val counts = marked(e)
        .groupBy(col("k"), window(col("t"), "5 seconds"))
        .agg(count("*").as("n"))
        .select(col("k"), window_time(col("window")).as("t"), col("n"))
      Tailrace.join(counts, renamed(counts), Seq("k" -> "r_k"), options("t", "r_t"))
    }
  }

  private def pairs(l: DataFrame, r: DataFrame): DataFrame =
    Tailrace.join(marked(l), renamed(marked(r)), Seq("k" -> "r_k"), options("t", "r_t").copy(how = "inner"))

  private def later(frame: DataFrame): DataFrame =
    marked(frame).toDF("x_k", "x_t", "x_id", "x_kind")

  test("pairs with two event times, joined again") {
    checkStream { (l, r) =>
      Tailrace.join(pairs(l, r), later(l), Seq("k" -> "x_k"), options("t", "x_t"))
    }
  }

  test("pairs, joined again by the right time", Campaign) {
    checkStream { (l, r) =>
      val o = options("r_t", "x_t").copy(how = "inner")
      Tailrace.join(pairs(l, r), later(l), Seq("k" -> "x_k"), o)
    }
  }

  test("pairs of Spark's interval join as the right side") {
    checkStream { (l, r) =>
      val spark =
        marked(l).join(renamed(marked(r)), expr("k = r_k and r_t between t and t + interval 5 seconds"))
      Tailrace.join(later(l), spark, Seq("x_k" -> "k"), options("x_t", "r_t"))
    }
  }

  test("Spark's join of two DataFrames with state of one stream", Campaign) {
    checkStream { (e, _) =>
      val own = once(e)
      val (l, r) = (ofKind(own, "imp"), renamed(ofKind(own, "click")))
      l.join(r, expr("k = r_k and r_t between t and t + interval 10 seconds"))
    }
  }

  test("a synced join of a stream with itself: right columns have names of left columns") {
    withDirectory { d =>
      val options = SyncOptions(
        leftTime = "t",
        rightTime = "t",
        window = "1 minute",
        syncDelay = "5 seconds",
        leftPartition = Seq("kind"),
        rightPartition = Seq("kind")
      )
      val h = new EventStreams(spark, d)((e, _) =>
        Tailrace
          .syncJoin(ofKind(e, "imp"), ofKind(e, "click"), Seq("k" -> "k"), options)
          .select("k", "id", "id_right", "kind", "kind_right")
      ).start()
      h.add(Seq(at("a", 0, 1), at("b", 1, 2), at("a", 2, 3, "click")), Nil)
      h.add(Seq(end(1), end(2, "click")), Nil)
      assert(h.all.map(_.toSeq).toSet == Set(Seq("a", 1, 3, "imp", "click"), Seq("b", 2, null, "imp", null)))
    }
  }
}
