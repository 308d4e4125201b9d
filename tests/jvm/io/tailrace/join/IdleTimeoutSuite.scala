package io.tailrace.join

import java.io.File
import java.nio.file.Files

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{col, window}
import org.apache.spark.sql.streaming.Trigger

import io.tailrace.api.Tailrace
import io.tailrace.asof.{AsOfMetrics, AsOfOptions}
import io.tailrace.common.{TailraceAnalysisException, TailraceConf}
import io.tailrace.label.LabelMetrics
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit._

/** Rows that wait come out when the query has had no input for long, though the watermark stands. */
final class IdleTimeoutSuite extends SparkSuite {
  private val limit = 60L * 60 * 1000
  private val hour = options("10 seconds").copy(releaseEvery = Some("batch"), idleTimeout = Some("1 hour"))

  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)
  private def group(id: Int, labels: Int*) = Emitted("k", Some(id), labels)

  private def query(of: (DataFrame, DataFrame) => DataFrame = join(hour), settings: Seq[(String, Any)] = Nil)(
      body: (StreamHarness, ManualClock, File) => Unit
  ): Unit = withConf(settings: _*) {
    withClock { (d: File, clock: ManualClock) =>
      val h = new StreamHarness(spark, d, Some(clock))(of).start()
      try body(h, clock, d)
      finally h.stop()
    }
  }

  private def pass(h: StreamHarness, clock: ManualClock, eighths: Int): Seq[Seq[Emitted]] =
    h.pass(clock, limit, eighths)

  test("two queries of a session have a clock each: an hour that one of them sees is none for the other") {
    withClock { (idleDirectory, idle) =>
      withClock { (freshDirectory, fresh) =>
        val queries = Seq(idleDirectory -> idle, freshDirectory -> fresh).map { case (directory, clock) =>
          new StreamHarness(spark, directory, Some(clock))(join(hour)).start()
        }
        try {
          queries.foreach(_.step(Seq(served(101, 1)), Seq(engaged(102, 10))))
          assert(pass(queries.head, idle, 8).flatten == Seq(group(1, 10)))
          assert(queries.last.settle().flatten.isEmpty)
          assert(pass(queries.last, fresh, 8).flatten == Seq(group(1, 10)))
        } finally queries.foreach(_.stop())
      }
    }
  }

  Seq("lazy", "eager").foreach { strategy =>
    test(s"after an hour without input rows come out, once, and later rows for them are late: $strategy") {
      query(join(hour.copy(onLate = "mark")), Seq(TailraceConf.JoinStrategy.key -> strategy)) {
        (h, clock, _) =>
          assert(h.step(Seq(served(1, 1), served(4, 2)), Seq(engaged(2, 10))).flatten.isEmpty)
          assert(pass(h, clock, 7).flatten.isEmpty)
          assert(pass(h, clock, 1).flatten == Seq(group(1, 10), group(2)))
          assert(h.total(LabelMetrics.FlushedByIdleTimeout) == 2 && h.total(LabelMetrics.GroupsEmitted) == 2)
          assert(pass(h, clock, 20).isEmpty, "nothing waits, and no batch runs")
          // The newest left row that has come out is of 4.
          val after =
            h.step(Seq(served(4, 3), served(4.5, 4)), Seq(engaged(4, 11), engaged(5, 12), engaged(20, 13)))
          assert(
            after.flatten.map(e => e.mark.get -> (e.id.toSeq ++ e.labels)).toSet ==
              Set("late_left" -> Seq(3), "late_right" -> Seq(11))
          )
          assert(
            h.total(LabelMetrics.RowsAfterFlush) == 1,
            "the right row of 5 is in the window of the row of 4"
          )
          assert(pass(h, clock, 8).flatten == Seq(group(4, 12)))
      }
    }
  }

  test("without the option, and before the hour is over, nothing comes out") {
    query(join(hour.copy(idleTimeout = None))) { (h, clock, _) =>
      h.left(served(1, 1))
      assert(pass(h, clock, 20).isEmpty)
    }
    query() { (h, clock, _) =>
      h.left(served(1, 1))
      // Input of any of its sources is input of the query: one silent stream isn't enough.
      assert((1 to 5).flatMap(i => h.right(engaged(i.toDouble, i)) ++ pass(h, clock, 7)).flatten.isEmpty)
    }
  }

  test("the time that a query is down is no silence; a start counts from its first batch") {
    query() { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Nil)
      assert(pass(h, clock, 7).isEmpty)
      h.stop()
      clock.advance(10 * limit)
      h.start()
      h.right(engaged(3, 3))
      assert(pass(h, clock, 7).isEmpty)
      assert(pass(h, clock, 1).flatten == Seq(group(1, 3)))
    }
  }

  test("a batch that closes and runs again after a crash closes the same, whatever came meanwhile") {
    query() { (h, clock, d) =>
      h.step(Seq(served(1, 1), served(4, 2)), Seq(engaged(2, 10)))
      pass(h, clock, 9)
      val closing = h.batchCount - 1
      assert(h.byBatch(closing) == Seq(group(1, 10), group(2)))
      h.stop()
      // As if the process had died after the batch was logged and before it was committed.
      Files.delete(Checkpoint.newestFirst(new File(d, "commits")).head.toPath)
      h.preload(Seq(served(3, 3), served(6, 4)), Seq(engaged(3, 11)))
      // Whatever the query is now.
      h.start(join(hour.copy(idleTimeout = None)))
      h.settle()
      assert(h.changed.isEmpty && h.byBatch(closing) == Seq(group(1, 10), group(2)))
      assert(h.total(LabelMetrics.LateLeftRows) == 1, "of the rows that came meanwhile, that of 3")
      assert(pass(h, clock, 9).isEmpty)
      h.restart()
      h.right(engaged(1, 12, "other"))
      assert(pass(h, clock, 9).flatten == Seq(group(4)))
    }
  }

  test("a crash before the batch is logged closes nothing: what comes then is in time") {
    query() { (h, clock, d) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 10)))
      pass(h, clock, 9)
      h.stop()
      val closing = h.batchCount - 1
      Seq("commits", "offsets").foreach(log => Files.delete(new File(d, s"$log/$closing").toPath))
      h.start()
      assert(h.right(engaged(3, 11)).flatten.isEmpty)
      assert(pass(h, clock, 9).flatten == Seq(group(1, 10, 11)))
    }
  }

  test("a query that ends when all has been read closes nothing") {
    import spark.implicits._
    withDirectory { d =>
      val files = new File(d, "in").getPath
      (1 to 2).foreach(i => Seq(served(i.toDouble, i)).toDS().coalesce(1).write.mode("append").parquet(files))
      val left = spark.readStream.schema(spark.read.parquet(files).schema).option("maxFilesPerTrigger", 1)
      // Spark asks after each of the two batches, and a millisecond has passed.
      val o = hour.copy(idleTimeout = Some("1 millisecond"))
      val right = new StreamHarness(spark, d)(join(o)).inputs._2
      var rows = 0L
      join(o)(left.parquet(files), right).writeStream
        .option("checkpointLocation", d.getPath)
        .trigger(Trigger.AvailableNow())
        .foreachBatch { (out: DataFrame, _: Long) => rows += out.count() }
        .start()
        .awaitTermination()
      assert(rows == 0 && Checkpoint.newestFirst(new File(d, "commits")).size == 2)
    }
  }

  test("versions of rows come out in order, and those that had come out don't come again") {
    val o = hour.copy(horizons = Seq("2 seconds", "5 seconds"))
    query(join(o)) { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 10)))
      h.step(Seq(served(4, 2)), Seq(engaged(4, 11)))
      val early = h.allRows.map(r => r.getAs[Int]("id") -> r.getAs[String]("horizon"))
      assert(early == Seq(1 -> "2 seconds"))
      pass(h, clock, 9)
      val all = h.allRows.map(r => (r.getAs[Int]("id"), r.getAs[String]("horizon"), Emitted.of(r).labels))
      assert(all.filter(_._1 == 1).map(_._2) == Seq("2 seconds", "5 seconds", "10 seconds"))
      assert(all.filter(_._1 == 2) == Seq("2 seconds", "5 seconds", "10 seconds").map((2, _, Seq(11))))
    }
  }

  test("an operator behind the join sees that what has come out isn't followed by older rows") {
    def counted(left: DataFrame, right: DataFrame): DataFrame =
      join(hour)(left, right).groupBy(window(col("t"), "1 second")).count()
    query(counted) { (h, clock, _) =>
      h.step(Seq(served(1.5, 1), served(4.5, 2)), Seq(engaged(2, 10)))
      (1 to 9).foreach { _ =>
        clock.advance(limit / 8)
        h.settle()
      }
      // The window from 4 may have another row of 4.7.
      assert(h.allRows.map(_.getLong(1)) == Seq(1L))
    }
  }

  test("left rows of an as-of join come out with what is there; later ones that they pass come out at once") {
    def asOf(left: DataFrame, right: DataFrame): DataFrame = Tailrace.asOf(
      left.withWatermark("t", "0 seconds"),
      right.withWatermark("rt", "0 seconds"),
      Seq("k" -> "k"),
      AsOfOptions("t", "rt", idleTimeout = Some("1 hour"))
    )
    query(asOf) { (h, clock, _) =>
      def found = h.allRows.map(Looked.of)
      h.rows(Seq(served(3, 1), served(6, 2)), Seq(engaged(2, 10)))
      (1 to 9).foreach { _ =>
        clock.advance(limit / 8)
        h.settle()
      }
      assert(found.toSet == Set(Looked("k", 1, Some(10)), Looked("k", 2, Some(10))))
      assert(h.total(AsOfMetrics.FlushedByIdleTimeout) == 2)
      h.rows(Seq(served(5, 3), served(9, 4)), Seq(engaged(4, 11), engaged(8, 12)))
      assert(found.drop(2) == Seq(Looked("k", 3, Some(11))) && h.total(AsOfMetrics.RowsAfterFlush) == 1)
      h.rows(Nil, Seq(engaged(20, 13)))
      h.rows(Seq(served(20, 5)), Nil)
      assert(found.drop(3).head == Looked("k", 4, Some(12)))
    }
  }

  test("it needs groups, a duration, and batches without data") {
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "idle_timeout", "value" -> "1 hour") {
      hour.copy(how = "inner", releaseEvery = None).settings
    }
    val wrong = intercept[TailraceAnalysisException](hour.copy(idleTimeout = Some("now")).settings)
    assert(wrong.getCondition == "TAILRACE_OPTION_INVALID" && wrong.getMessage.contains("`idle_timeout`"))
    val decided =
      intercept[TailraceAnalysisException](hour.copy(release = "decided", `match` = "first").settings)
    assert(decided.getCondition == "TAILRACE_OPTION_CONFLICT")
    assert(decided.getMessageParameters.get("argument") == "release")
    assert(decided.getMessageParameters.get("other") == "idle_timeout")
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> false) {
      checkRefused("TAILRACE_JOIN_CLOSES_IN_NO_BATCH", "option" -> "`idle_timeout`")(
        query()((_, _, _) => ())
      )
    }
  }
}
