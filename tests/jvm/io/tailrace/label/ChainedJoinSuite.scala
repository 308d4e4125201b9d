package io.tailrace.label

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._

import io.tailrace.api.Tailrace
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Campaign, Engaged, Served, Slow, SparkSuite, StreamHarness}

/** The join before and behind other stateful operators of one query. The watermark that it passes on loses no
  * row, and their state is in Spark's provider.
  */
class ChainedJoinSuite extends SparkSuite {
  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)

  private def counted(joined: DataFrame): DataFrame =
    joined
      .groupBy(window(col("t"), "10 seconds"))
      .agg(count("*").as("n"))
      .select(col("window.start").as("t"), col("n"))

  private def counts(rows: Seq[Seq[org.apache.spark.sql.Row]]): Map[java.sql.Timestamp, Long] =
    rows.flatten.map(r => r.getTimestamp(0) -> r.getLong(1)).toMap

  // Rows come out of the join 30 seconds behind the watermark.
  private def throughAggregation(o: JoinOptions): Unit = withDirectory { d =>
    val h = new StreamHarness(spark, d)((l, r) => counted(join(o)(l, r))).start()
    val out = (0 to 7).flatMap { i =>
      if (i == 4) h.restart()
      val rows =
        h.rows(Seq(served(i * 10.0, i)), Seq(engaged(i * 10.0, i, if (o.how == "left") "other" else "k")))
      // A window comes out when the join gives no more rows of it.
      val done = counts(rows)
      done.keys.foreach(start => assert(i * 10 >= (start.getTime - seconds(0).getTime) / 1000 + 10 + 30))
      done
    }
    // One left row a window; as pairs, each with the right row of its time and the three after it.
    val perRow = if (o.how == "left") 1L else 4L
    // The watermark has come to 70, so what comes out of the join is after 40.
    assert(out.toMap == (0 to 3).map(w => seconds(w * 10.0) -> perRow).toMap && out.size == 4)
    assert(h.dropped == 0)
  }

  test("a windowed aggregation behind a left join counts all rows", Slow) {
    throughAggregation(options("30 seconds").copy(releaseEvery = Some("batch")))
  }

  test("a windowed aggregation behind a join that holds rows back counts all rows", Campaign) {
    withDirectory { d =>
      val o = options("30 seconds").copy(releaseEvery = Some("20 seconds"))
      val h = new StreamHarness(spark, d)((l, r) => counted(join(o)(l, r))).start()
      // Several batches before rows leave, at another time in each partition.
      val out = (0 to 24).flatMap { i =>
        if (i == 13) h.restart()
        counts(h.rows((0 to 3).map(n => served(i * 5.0, n, s"k$n")), Seq(engaged(i * 5.0, i, "other"))))
      } ++ counts(h.rows(Seq(served(1000, 0)), Seq(engaged(1000, 0))))
      assert(out.toMap == (0 to 11).map(w => seconds(w * 10.0) -> 8L).toMap + (seconds(120) -> 4L))
      assert(out.size == 13 && h.dropped == 0)
    }
  }

  test("a windowed aggregation behind an inner join counts all rows", Campaign) {
    throughAggregation(options("30 seconds").copy(how = "inner"))
  }

  test("a windowed aggregation behind an inner join that looks back counts all rows", Campaign) {
    withDirectory { d =>
      // The right row comes first and waits for the left one; the pair has the time of the later.
      val o = options("0 seconds").copy(how = "inner", before = "30 seconds")
      val query = (l: DataFrame, r: DataFrame) =>
        join(o)(l, r)
          .groupBy(window(col("rt"), "10 seconds"))
          .agg(count("*").as("n"))
          .select(col("window.start").as("t"), col("n"))
      val h = new StreamHarness(spark, d)(query).start()
      val out = (0 to 6).flatMap(i => counts(h.rows(Seq(served(i * 10.0, i)), Seq(engaged(i * 10.0, i)))))
      // A right row pairs with the left one of its time and the three after it.
      assert(out.toMap == (0 to 2).map(w => seconds(w * 10.0) -> 4L).toMap && out.size == 3)
      assert(h.dropped == 0)
    }
  }

  /** The result of the first join is the left side of a second one with later labels. */
  private def twoJoins(every: String)(l: DataFrame, r: DataFrame): DataFrame = {
    val later = r
      .select(col("k").as("k2"), col("rt").as("later"), col("rid").as("rid2"))
      .withWatermark("later", "0 seconds")
    val second = JoinOptions("t", "later", after = "20 seconds", into = "after20", releaseEvery = Some(every))
    Tailrace.join(
      join(options("10 seconds").copy(releaseEvery = Some(every)))(l, r),
      later,
      Seq("k" -> "k2"),
      second
    )
  }

  for ((what, every) <- Seq("" -> "batch", ", and holds rows back" -> "20 seconds"))
    test(s"a join behind a join gives all groups of both$what") {
      withDirectory { d =>
        val h = new StreamHarness(spark, d)(twoJoins(every)).start()
        (0 to 6).foreach { i =>
          if (i == 3) h.restart()
          h.step(Seq(served(i * 10.0, i)), Seq(engaged(i * 10.0 + 1, i)))
        }
        def out = h.allRows.map { r =>
          r.getAs[Int]("id") -> ((
            r.getSeq[org.apache.spark.sql.Row](r.fieldIndex("labels")).map(_.getAs[Int]("rid")),
            r.getSeq[org.apache.spark.sql.Row](r.fieldIndex("after20")).map(_.getAs[Int]("rid2"))
          ))
        }
        val expected = (0 to 6).map(i => i -> ((Seq(i), Seq(i, i + 1).filter(_ <= 6))))
        // Watermark 60: the first join gives rows up to 50 and passes on 50, so the second gives rows up to 30.
        if (every == "batch") assert(out.sortBy(_._1) == expected.take(4))
        h.step(Seq(served(1000, 1000)), Seq(engaged(1000, 1000, "other")))
        assert(out.sortBy(_._1) == expected)
      }
    }

  test("Spark's deduplication before the join and aggregation behind it go on after restarts", Campaign) {
    withDirectory { d =>
      val query = (l: DataFrame, r: DataFrame) =>
        counted(
          Tailrace.join(
            l.withWatermark("t", "0 seconds").dropDuplicatesWithinWatermark("id"),
            r.withWatermark("rt", "0 seconds"),
            Seq("k" -> "k"),
            options("10 seconds")
          )
        )
      val h = new StreamHarness(spark, d)(query).start()
      val out = (0 to 6).flatMap { i =>
        if (i == 4) h.restart()
        val row = served(i * 10.0 + 1, i)
        counts(h.rows(Seq(row, row), Seq(engaged(i * 10.0 + 1, i))))
      }
      assert(out.toMap == (0 to 4).map(w => seconds(w * 10.0) -> 1L).toMap && out.size == 5)
      val operators = h.reports.last.map(_.operatorName).toSet
      assert(operators == Set("dedupeWithinWatermark", "tailraceLabelJoin", "stateStoreSave"))
      // Only the join's state is Tailrace's.
      val files = java.nio.file.Files.walk(d.toPath.resolve("state"))
      val byOperator =
        try
          files.iterator.asScala.toSeq
            .map(d.toPath.resolve("state").relativize(_).toString)
            .filter(_.endsWith(".manifest"))
            .map(_.takeWhile(_ != '/'))
            .toSet
        finally files.close()
      assert(byOperator.size == 1)
    }
  }
}
