package io.tailrace.watermark

import java.io.File

import org.apache.spark.sql.execution.{FilterExec, WholeStageCodegenExec}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.tailrace.StreamAccess
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceConf
import io.tailrace.testkit.LoggedStream.{at, logged}
import io.tailrace.testkit.{Logged, LoggedStream, SparkSuite, WatermarkServerStub}

/** The watermark of hosts as Spark's operators see it. */
final class AccurateWatermarkSuite extends SparkSuite {
  private def watermark(options: WatermarkOptions)(logs: DataFrame): DataFrame =
    Tailrace.accurateWatermark(logs, "at", "host", options)

  private val whole = WatermarkOptions(completeness = "100%", hosts = Some(Seq("a", "b")))

  private def counts(logs: DataFrame): DataFrame =
    logs.groupBy(window(col("at"), "10 seconds")).count().select("window.start", "count")

  private def counting(directory: File, options: WatermarkOptions, flat: Boolean = false): LoggedStream =
    new LoggedStream(spark, directory)({ in =>
      val logs = watermark(options)(in.head)
      if (flat) logs else counts(logs)
    }).start()

  private def window(start: Double, count: Long): Row = Row(at(start), count)
  private def window(column: org.apache.spark.sql.Column, length: String) =
    org.apache.spark.sql.functions.window(column, length)

  test("a window closes when all hosts have passed it, whoever is fast") {
    withDirectory { directory =>
      val stream = counting(directory, whole)
      assert(stream.add(logged("a" -> 1, "a" -> 100, "b" -> 2)) == Nil)
      assert(stream.add(logged("b" -> 9, "a" -> 200)) == Nil)
      assert(stream.add(logged("b" -> 10)) == Nil)
      assert(stream.add(logged("b" -> 10.001)) == Seq(window(0, 3)))
      assert(stream.watermark == 10)
    }
  }

  test("at 50 % one of two hosts may lag") {
    withDirectory { directory =>
      val stream = counting(directory, whole.copy(completeness = "0.5"))
      assert(stream.add(logged("a" -> 1, "b" -> 2)) == Nil)
      assert(stream.add(logged("a" -> 11)) == Seq(window(0, 2)))
    }
  }

  test(
    "a host of the roster that was never seen is waited for; without a roster those count that were seen"
  ) {
    withDirectory { directory =>
      val stream = counting(directory, whole)
      assert(stream.add(logged("a" -> 1)) == Nil)
      assert(stream.add(logged("a" -> 30)) == Nil)
      assert(stream.metrics().getAs[Long]("hosts") == 2 && stream.metrics().getAs[Long]("passed") == 0)
      assert(stream.add(logged("b" -> 30)) == Seq(window(0, 1)))
    }
    withDirectory { directory =>
      val stream = counting(directory, whole.copy(hosts = None))
      assert(stream.add(logged("a" -> 1, "a" -> 30)) == Seq(window(0, 1)))
      stream.add(logged("b" -> 25, "b" -> 26))
      assert(stream.watermark == 29.999)
    }
  }

  test("a row at exactly the watermark is on time, a microsecond before is late") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)(in =>
        watermark(whole)(in.head).dropDuplicates("id", "at").select("id")
      ).start()
      stream.add(logged("a" -> 10, "b" -> 10))
      stream.add(logged("a" -> 11))
      assert(stream.watermark == 9.999)
      val same = Seq(Logged("b", at(10), 7), Logged("b", at(9.999), 8), Logged("b", at(9.999001), 9))
      assert(stream.add(same).map(_.getLong(0)).toSet == Set(7L, 9L))
      assert(stream.metrics().getAs[Long]("lateRows") == 1)
    }
  }

  test("delay keeps Spark's watermark behind") {
    withDirectory { directory =>
      val stream = counting(directory, whole.copy(delay = "5 seconds"))
      assert(stream.add(logged("a" -> 1, "b" -> 12)) == Nil)
      assert(stream.add(logged("a" -> 14.5)) == Nil)
      assert(stream.add(logged("a" -> 15.1, "b" -> 15.1)) == Seq(window(0, 1)))
    }
  }

  test("a restart goes on from the table, the watermark and what was closed") {
    withDirectory { directory =>
      val stream = counting(directory, whole.copy(hosts = None))
      stream.add(logged("a" -> 1, "b" -> 1))
      assert(stream.add(logged("a" -> 100)) == Nil)
      // Without the table it would be a alone who counts, and b's rows would be late.
      stream.restart()
      assert(stream.add(logged("a" -> 200)) == Nil)
      assert(stream.watermark == 0.999)
      stream.restart()
      assert(stream.add(logged("b" -> 9)) == Nil)
      assert(stream.add(logged("b" -> 12)) == Seq(window(0, 3)))
    }
  }

  test("a batch that failed is made again from the table that it began with") {
    withDirectory { directory =>
      val stream = counting(directory, whole.copy(hosts = None))
      stream.add(logged("a" -> 1, "b" -> 1))
      stream.failNext()
      intercept[StreamingQueryException](
        stream.add(logged("a" -> 50, "b" -> 9))
      )
      stream.start().streaming.processAllAvailable()
      assert(stream.watermark == 8.999)
      assert(stream.add(logged("b" -> 10.5)) == Seq(window(0, 3)))
    }
  }

  test("a file of the table that is gone or damaged stops the query by its name") {
    withDirectory { directory =>
      val stream = counting(directory, whole)
      stream.add(logged("a" -> 1, "b" -> 1))
      stream.add(logged("a" -> 2, "b" -> 2))
      stream.streaming.stop()
      val table = new File(directory, "tailrace-watermark/watermark")
      val newest =
        table.listFiles.filterNot(_.getName.startsWith(".")).maxBy(_.getName.takeWhile(_ != '.').toInt)
      val bytes = java.nio.file.Files.readAllBytes(newest.toPath)
      java.nio.file.Files.deleteIfExists(new File(table, s".${newest.getName}.crc").toPath)
      java.nio.file.Files.write(newest.toPath, bytes.updated(30, (bytes(30) ^ 1).toByte))
      stream.start()
      intercept[Exception](stream.add(logged("a" -> 3)))
      assert(failureOf(stream.streaming)._1 == "TAILRACE_STATE_FILE_CORRUPT")
      java.nio.file.Files.delete(newest.toPath)
      stream.start()
      intercept[Exception](stream.streaming.processAllAvailable())
      assert(failureOf(stream.streaming)._1 == "TAILRACE_WATERMARK_PROGRESS_MISSING")
      withConf(TailraceConf.WatermarkBeginAnew.key -> true) {
        stream.start()
        stream.add(logged("a" -> 4, "b" -> 4))
      }
    }
  }

  test("two sources: the one that lags decides, also one without rows yet, over restarts") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory, sources = 2)({ in =>
        val both = in.zip(Seq("one", "two")).map { case (logs, name) =>
          watermark(whole.copy(name = name))(logs)
        }
        counts(both.reduce(_ union _))
      }).start()
      assert(stream.add(logged("a" -> 1, "b" -> 1), Nil) == Nil)
      assert(stream.add(logged("a" -> 40, "b" -> 30), Nil) == Nil)
      assert(stream.watermark == -LoggedStream.Noon.toDouble)
      assert(stream.add(Nil, logged("a" -> 5, "b" -> 15)) == Nil)
      assert(stream.watermark == 4.999)
      stream.restart()
      assert(stream.add(Nil, logged("a" -> 12)) == Seq(window(0, 3)))
      assert(stream.metrics("tailrace.watermark.one").getAs[java.sql.Timestamp]("lowWatermark") == at(30))
      assert(stream.metrics("tailrace.watermark.two").getAs[java.sql.Timestamp]("lowWatermark") == at(12))
    }
  }

  test("filters and projections between, and a frame that is used twice") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)({ in =>
        val logs = watermark(whole)(in.head)
        val some = logs.filter("id % 2 = 1").select("at", "id")
        val others = logs.filter("host = 'a'").select("at", "id")
        counts(some.union(others))
      }).start()
      assert(stream.add(logged("a" -> 2, "b" -> 4, "b" -> 4.001)) == Nil)
      // b's rows are filtered out; its progress counts all the same.
      assert(stream.add(logged("a" -> 20, "b" -> 30)) == Seq(window(0, 2)))
    }
  }

  test("stream-stream join and tailrace.join wait for the host that lags") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory, sources = 2)({ in =>
        val left = watermark(whole.copy(name = "left"))(in.head)
        val right = watermark(whole.copy(name = "right"))(in(1)).toDF("rhost", "rat", "id")
        Tailrace
          .join(
            left,
            right,
            Seq("id" -> "id"),
            io.tailrace.label.JoinOptions(leftTime = "at", rightTime = "rat", after = "5 seconds")
          )
          .select(col("id"), size(col("labels")))
      }).start()
      assert(stream.add(logged("a" -> 1, "a" -> 20), logged("a" -> 20, "b" -> 20)) == Nil)
      assert(stream.add(logged("b" -> 20), Seq(Logged("b", at(20), 5))) == Seq(Row(1000L, 0)))
    }
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory, sources = 2)({ in =>
        val left = watermark(whole.copy(name = "left"))(in.head)
        val right = watermark(whole.copy(name = "right"))(in(1)).toDF("rhost", "rat", "rid")
        left
          .join(right, expr("id = rid AND rat BETWEEN at AND at + INTERVAL 5 SECONDS"), "left_outer")
          .select("id", "rid")
      }).start()
      assert(stream.add(logged("a" -> 1, "a" -> 20), logged("a" -> 21, "b" -> 21)) == Nil)
      assert(stream.add(logged("b" -> 20), Nil) == Seq(Row(1000L, null)))
    }
  }

  test("ahead of the clock: clamped, marked, or an error") {
    def future(action: String) = whole.copy(futureLimit = Some("1 hour"), onFuture = action)
    val year3000 = logged("a" -> 1, "b" -> 2, "a" -> 3e10)
    withDirectory { directory =>
      val stream = counting(directory, future("clamp"))
      stream.add(year3000)
      assert(stream.watermark == 1.999)
      stream.add(logged("b" -> 3e10))
      val now = System.currentTimeMillis / 1000.0 - LoggedStream.Noon
      assert(Math.abs(stream.watermark - now - 3600) < 60)
      assert(stream.metrics().getAs[Long]("futureRows") == 2)
    }
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)(in =>
        watermark(future("mark"))(in.head).select("id", "_mark")
      ).start()
      assert(stream.add(year3000).map(_.getString(1)) == Seq(null, null, "future"))
      stream.add(Nil)
      stream.restart().add(logged("b" -> 4))
      assert(stream.metrics().getAs[java.sql.Timestamp]("lowWatermark") == at(1))
      assert(stream.metrics().getAs[Long]("futureRows") == 1)
    }
    withDirectory { directory =>
      val stream = counting(directory, future("fail"))
      intercept[Exception](stream.add(year3000))
      val (condition, parameters) = failureOf(stream.streaming)
      assert(condition == "TAILRACE_WATERMARK_FUTURE" && parameters("host") == "a")
    }
  }

  test("late and future rows are counted once a batch, however often foreachBatch reads it") {
    withDirectory { directory =>
      val options = whole.copy(futureLimit = Some("1 hour"))
      val stream = counting(directory, options, flat = true)
      stream.before = { rows =>
        rows.limit(1).collect()
        rows.count(): Unit
        rows.union(rows).collect(): Unit
      }
      stream.add(logged("a" -> 10, "b" -> 10))
      stream.add(logged("a" -> 11, "b" -> 11))
      stream.add(logged("a" -> 1, "b" -> 2, "a" -> 3e10))
      assert(stream.metrics().getAs[Long]("lateRows") == 2)
      assert(stream.metrics().getAs[Long]("futureRows") == 1)
      stream.restart()
      stream.add(logged("a" -> 12))
      assert(stream.metrics().getAs[Long]("futureRows") == 1)
    }
  }

  test("rows of a frame that is used twice in a query are counted once") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)({ in =>
        val logs = watermark(whole.copy(futureLimit = Some("1 hour")))(in.head)
        logs.filter("id % 2 = 0").select("id").union(logs.select("id"))
      }).start()
      stream.add(logged("a" -> 10, "b" -> 10))
      stream.add(logged("a" -> 11, "b" -> 11))
      stream.add(logged("a" -> 1, "b" -> 2, "a" -> 3e10))
      assert(stream.metrics().getAs[Long]("lateRows") == 2)
      assert(stream.metrics().getAs[Long]("futureRows") == 1)
    }
  }

  test("a host that is silent for too long isn't waited for") {
    withClock { (directory, clock) =>
      val stream = counting(directory, whole.copy(idleAfter = Some("800 milliseconds")))
      assert(stream.add(logged("a" -> 1, "b" -> 1)) == Nil)
      assert(stream.add(logged("a" -> 20)) == Nil)
      // Nobody gives anything: a quiet night.
      clock.advance(1000)
      assert(stream.add(logged("a" -> 21)) == Nil)
      (1 to 3).foreach { _ =>
        clock.advance(110)
        assert(stream.add(logged("a" -> 22)) == Nil)
      }
      assert(stream.metrics().getAs[Long]("idle") == 0)
      val closed = (1 to 8).flatMap { _ =>
        clock.advance(110)
        stream.add(logged("a" -> 23))
      }
      assert(closed == Seq(window(0, 2)) && stream.metrics().getAs[Long]("idle") == 1)
      stream.add(logged("b" -> 2))
      assert(stream.metrics().getAs[Long]("idle") == 0 && stream.metrics().getAs[Long]("passed") == 1)
    }
  }

  test("null hosts and null times pass and don't count") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)(in => watermark(whole)(in.head).select("id")).start()
      assert(stream.add(Seq(Logged(null, at(5), 1), Logged("a", null, 2), Logged(null, null, 3))).size == 3)
      assert(stream.metrics().getAs[Long]("passed") == 0 && stream.metrics().isNullAt(3))
    }
  }

  test("the same in generated code, where the operators around it stay in one loop, and without it") {
    val options = whole.copy(futureLimit = Some("1 hour"), onFuture = "mark")
    val odd = Seq(
      Logged(null, at(5), 0),
      Logged("b", at(9), 1),
      Logged(null, at(3e10), 2),
      Logged("b", at(3e10), 3),
      Logged("a", null, 4),
      Logged(null, null, 5)
    )
    val found = Seq(true, false).map { generated =>
      withConf("spark.sql.codegen.wholeStage" -> generated)(withDirectory { directory =>
        val stream = new LoggedStream(spark, directory)(in =>
          watermark(options)(in.head).filter("id < 9000 OR id % 2 = 0").select("id", "_mark")
        ).start()
        stream.add(logged("a" -> 1, "b" -> 2, "a" -> 9.001))
        stream.add(logged("a" -> 10, "b" -> 8))
        val rows = stream.add(logged("a" -> 1.9, "b" -> 2) ++ odd)
        val loops = StreamAccess.executedPlan(stream.streaming).collect {
          case loop: WholeStageCodegenExec if loop.exists(_.isInstanceOf[HostProgressExec]) => loop
        }
        assert(loops.exists(_.exists(LowWatermark.of(_).nonEmpty)) == generated)
        assert(loops.exists(_.exists(_.isInstanceOf[FilterExec])) == generated)
        assert(stream.watermark == 7.999)
        assert(stream.metrics().getAs[Long]("lateRows") == 1)
        assert(stream.metrics().getAs[Long]("futureRows") == 1)
        rows
      })
    }
    assert(found.head == found.last)
    assert(found.head.collect {
      case row if row.getString(1) == "future" => row.getLong(0)
    }.sorted == Seq(2, 3))
  }

  test("the slowest hosts are named in the query's progress") {
    withDirectory { directory =>
      val stream =
        counting(directory, whole.copy(hosts = Some((1 to 9).map(i => s"h$i")), completeness = "50%"))
      stream.add(logged((1 to 8).map(i => s"h$i" -> (10.0 - i)): _*))
      val report = stream.metrics()
      assert(report.getAs[Long]("hosts") == 9 && report.getAs[Long]("passed") == 5)
      val slowest = report.getSeq[Row](report.fieldIndex("slowest"))
      assert(slowest.map(_.getString(0)) == Seq("h9", "h8", "h7", "h6", "h5"))
      assert(slowest.map(_.get(1)) == Seq(null, at(2), at(3), at(4), at(5)))
      assert(stream.streaming.lastProgress.json.contains("\"slowest\""))
    }
  }

  test("a batch frame comes back as it is") {
    val frame = spark.createDataFrame(logged("a" -> 1, "b" -> 2))
    assert(watermark(whole)(frame).collect().toSeq == frame.collect().toSeq)
    assert(!watermark(whole)(frame).queryExecution.analyzed.exists(_.isInstanceOf[HostProgress]))
    val marked = watermark(whole.copy(futureLimit = Some("1 hour"), onFuture = "mark"))(frame)
    assert(marked.columns.toSeq == Seq("host", "at", "id", "_mark"))
  }

  test("what is wrong with an argument is said when the frame is made") {
    val frame = spark.createDataFrame(logged("a" -> 1))
    def served(url: String) = whole.copy(server = Some(url), app = Some("my app"))
    def condition(
        options: WatermarkOptions = whole,
        of: DataFrame = frame,
        time: String = "at",
        host: String = "host"
    ) =
      intercept[io.tailrace.common.TailraceAnalysisException](
        Tailrace.accurateWatermark(of, time, host, options)
      ).getCondition
    assert(condition(time = "when") == "TAILRACE_COLUMN_NOT_FOUND")
    assert(condition(host = "who") == "TAILRACE_COLUMN_NOT_FOUND")
    assert(condition(time = "id") == "TAILRACE_COLUMN_TYPE")
    assert(condition(host = "id") == "TAILRACE_COLUMN_TYPE")
    assert(condition(whole.copy(hosts = Some(Nil))) == "TAILRACE_OPTION_INVALID")
    val marking = whole.copy(futureLimit = Some("1 hour"), onFuture = "mark")
    assert(condition(marking, frame.withColumn("_mark", lit(1))) == "TAILRACE_COLUMN_EXISTS")
    assert(
      condition(served("http://127.0.0.1:7171").copy(app = None)) == "TAILRACE_OPTION_NEEDS"
    )
    Seq(whole.copy(app = Some("clicks")), whole.copy(token = Some("secret"))).foreach { options =>
      assert(condition(options) == "TAILRACE_OPTION_NEEDS", options)
    }
    Seq("mark", "fail").foreach { action =>
      assert(condition(whole.copy(onFuture = action)) == "TAILRACE_OPTION_NEEDS", action)
    }
    Seq(
      whole.copy(completeness = "0%"),
      whole.copy(completeness = "101%"),
      whole.copy(onFuture = "drop"),
      whole.copy(name = "a/b"),
      whole.copy(delay = "-1 second"),
      whole.copy(idleAfter = Some("1 month")),
      whole.copy(idleAfter = Some("0 seconds")),
      whole.copy(futureLimit = Some("soon")),
      whole.copy(server = Some("localhost:7171"), app = Some("clicks")),
      served("http://a b"),
      served("http://127.0.0.1:99999"),
      served("http://127.0.0.1:0"),
      served("http://user:password@127.0.0.1:7171"),
      served("http://my_host:7171"),
      served("http://127.0.0.1:7171").copy(hosts = Some((0 to 100000).map(_.toString))),
      served("http://127.0.0.1:7171").copy(hosts = Some((0 to 50000).map(i => s"$i" + "h" * 190))),
      served("http://127.0.0.1:7171").copy(operator = ""),
      served("http://127.0.0.1:7171").copy(operator = "a\nb"),
      served("http://127.0.0.1:7171").copy(operator = "o" * 201),
      served("http://127.0.0.1:7171").copy(app = Some("a\u0085b")),
      served("http://127.0.0.1:7171").copy(token = Some("a\nb"))
    ).foreach(options => assert(condition(options) == "TAILRACE_OPTION_INVALID", options))
  }

  test("a server's word counts; while it is away the watermark stays and the query goes on") {
    withClock { (directory, clock) =>
      val server = new WatermarkServerStub().start()
      try {
        val stream = counting(directory, whole.copy(server = Some(server.url), app = Some("my app")))
        assert(stream.add(logged("a" -> 20, "b" -> 20, "a" -> 1)) == Nil)
        // Another query of the application has read less.
        server.low = Some((LoggedStream.Noon + 5) * 1000000)
        assert(stream.add(logged("a" -> 21)) == Nil)
        assert(stream.watermark == 4.999)
        server.close()
        assert(stream.add(logged("a" -> 22, "b" -> 22)) == Nil)
        stream.restart()
        assert(stream.add(logged("a" -> 23)) == Nil)
        assert(stream.watermark == 4.999)
        server.low = Some((LoggedStream.Noon + 15) * 1000000)
        server.start()
        clock.advance(1200)
        assert(stream.add(logged("b" -> 23)) == Seq(window(0, 1)))
        val back = server.reports.filter(_.get("run").asText == stream.streaming.runId.toString)
        val last = back.map(server.progress).reduce(_ ++ _)
        assert(
          last == Map("a" -> (LoggedStream.Noon + 23) * 1000000, "b" -> (LoggedStream.Noon + 23) * 1000000)
        )
      } finally server.close()
    }
  }

  test(
    "a query whose sources another one reports ends by name, before a row is out; so does one that is replaced"
  ) {
    withDirectory { directory =>
      val server = new WatermarkServerStub().start()
      try {
        server.conflict = Some("TAILRACE_WATERMARK_REPORTER_CONFLICT")
        val stream =
          counting(directory, whole.copy(server = Some(server.url), app = Some("my app")), flat = true)
        intercept[StreamingQueryException](stream.add(logged("a" -> 1, "b" -> 1)))
        assert(failureOf(stream.streaming)._1 == "TAILRACE_WATERMARK_REPORTER_CONFLICT")
        assert(stream.all == Nil)
        server.conflict = None
        stream.start()
        stream.add(logged("a" -> 2))
        val runs = server.reports.map(_.get("run").asText)
        assert(runs.distinct == Seq(stream.streaming.runId.toString))
        assert(server.reports.map(_.get("client").asText).distinct == Seq(stream.streaming.id.toString))
        assert(
          server.reports.head.at("/operators/0/unread").asBoolean,
          "before its first batch it has read nothing"
        )
        assert(server.reports.forall(_.at("/operators/0/reads/0").asText.startsWith("MemoryStream")))
        server.conflict = Some("TAILRACE_WATERMARK_RUN_REPLACED")
        intercept[StreamingQueryException](stream.add(logged("a" -> 3)))
        assert(failureOf(stream.streaming)._1 == "TAILRACE_WATERMARK_RUN_REPLACED")
        server.conflict = None
        stream.start().streaming.stop()
      } finally server.close()
    }
  }

  test("another roster than before is told, by its content") {
    withDirectory { directory =>
      val stream = counting(directory, whole)
      stream.add(logged("a" -> 1, "b" -> 1))
      val file = new File(directory, "tailrace-watermark/watermark/0.snapshot").toPath
      val read =
        ProgressFile.decode(java.nio.file.Files.readAllBytes(file), "f", "watermark/0", new HostTable)
      val version = java.security.MessageDigest.getInstance("SHA-256").digest("a\nb".getBytes).take(8)
      assert(read.roster.contains(java.util.HexFormat.of.formatHex(version)))
    }
  }

  test("a stamp is behind all rows that come out under it or later, and as far as it can be") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)({ in =>
        val counts = watermark(whole.copy(completeness = "99.9%"))(in.head)
          .groupBy(window(col("at"), "10 seconds"))
          .count()
        Tailrace
          .stampWatermark(counts)
          .select(col("window.start"), call_function("parse_watermark_stamp", col("watermark")).as("stamp"))
          .select("start", "stamp.low_watermark", "stamp.completeness")
      }).start()
      val share = new java.math.BigDecimal("0.999").setScale(18)
      assert(stream.add(logged("a" -> 1, "b" -> 2)) == Nil)
      assert(stream.add(logged("a" -> 11, "b" -> 12)) == Seq(Row(at(0), at(0.999001), share)))
      val twice = stream.add(logged("a" -> 35, "b" -> 35))
      assert(twice.map(_.get(0)) == Seq(at(10)) && twice.map(_.get(1)).forall(_ == at(10.999001)))
    }
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)(in =>
        Tailrace
          .stampWatermark(watermark(whole)(in.head))
          .select(
            col("id"),
            call_function("parse_watermark_stamp", col("watermark")).getField("low_watermark")
          )
      ).start()
      assert(stream.add(logged("a" -> 1, "b" -> 2)).map(_.get(1)) == Seq(null, null))
      assert(stream.add(logged("a" -> 11)) == Seq(Row(11000L, at(0.999001))))
      stream.restart()
      assert(stream.add(logged("b" -> 11)) == Seq(Row(11000L, at(1.999001))))
    }
  }

  test("stamps: of each partition the latest, of the partitions the least, and shares are composed") {
    withDirectory { directory =>
      def share(text: String): Long = Completeness.parse(text).get.units
      // The id of a row says what its stamp is: seconds, and 0 for none.
      val stamp = udf { (id: Long) =>
        if (id < 0) Array[Byte](1, 2)
        else if (id == 0) WatermarkStamp.encode(Long.MinValue, share("1"))
        else WatermarkStamp.encode((LoggedStream.Noon + id) * 1000000, share(if (id < 50) "0.9" else "0.99"))
      }
      val options = WatermarkOptions(completeness = "100%")
      val stream = new LoggedStream(spark, directory)({ in =>
        val topic = in.head.withColumn("topic", lit("t")).withColumn("w", stamp(col("id")))
        val down = Tailrace.stampedWatermark(topic, "at", "w", Seq("topic", "host"), options)
        assert(down.columns.toSeq == Seq("host", "at", "id", "topic", "w"))
        val counts = down.groupBy(window(col("at"), "10 seconds")).count()
        Tailrace
          .stampWatermark(counts)
          .select(
            col("window.start"),
            col("count"),
            call_function("parse_watermark_stamp", col("watermark")).getField("completeness")
          )
      }).start()
      def row(partition: String, second: Double, stamp: Long): Logged = Logged(partition, at(second), stamp)
      assert(stream.add(Seq(row("a", 1, 60), row("a", 900, 0), row("b", 2, 0))) == Nil)
      assert(stream.watermark == -LoggedStream.Noon.toDouble)
      assert(stream.add(Seq(row("b", 2, -1), row("b", 3, 5))) == Nil)
      assert(stream.watermark == 4.999)
      val composed = new java.math.BigDecimal("0.9").setScale(18)
      assert(stream.add(Seq(row("b", 50, 11), row("b", 50, 3))) == Seq(Row(at(0), 4L, composed)))
      assert(stream.metrics().getAs[Long]("hosts") == 2)
    }
  }

  test("a stamp ahead of the clock: clamped, marked, or an error; and names of partitions are theirs alone") {
    def stream(directory: File, action: String): LoggedStream = {
      val stamp = udf { (id: Long) =>
        WatermarkStamp.encode((LoggedStream.Noon + id) * 1000000, WatermarkStamp.WholeShare)
      }
      val options =
        WatermarkOptions(completeness = "100%", futureLimit = Some("1 hour"), onFuture = action)
      new LoggedStream(spark, directory)({ in =>
        val topic = in.head.withColumn("w", stamp(col("id"))).withColumn("p", lit("1"))
        val parts = Seq(0, 1).map(i => get(split(col("host"), ","), lit(i)))
        val down = topic.withColumn("t", parts.head).withColumn("q", parts.last)
        val marked = Tailrace.stampedWatermark(down, "at", "w", Seq("t", "q"), options)
        marked.select((col("id") +: marked.columns.toSeq.filter(_ == "_mark").map(col)): _*)
      }).start()
    }
    val rows = Seq(Logged("t,0", at(1), 5), Logged("t,1", at(1), 30000000000L))
    withDirectory { directory =>
      val clamped = stream(directory, "clamp")
      def low = clamped.metrics().getAs[java.sql.Timestamp]("lowWatermark")
      clamped.add(rows)
      assert(low == at(5) && clamped.metrics().getAs[Long]("futureRows") == 1)
      clamped.add(Seq(Logged("t,0", at(1), 30000000000L)))
      assert(Math.abs(low.getTime - System.currentTimeMillis - 3600000) < 60000)
      clamped.add(Seq(Logged("a-b,c", at(1), 5), Logged("a,b-c", at(1), 6), Logged("a", at(1), 6)))
      val slowest = clamped.metrics().getSeq[Row](clamped.metrics().fieldIndex("slowest")).map(_.getString(0))
      assert(slowest.take(2) == Seq("a-b-c", "a-b%2Dc") && clamped.metrics().getAs[Long]("hosts") == 4)
    }
    withDirectory { directory =>
      val marking = stream(directory, "mark")
      assert(marking.add(rows).map(_.getString(1)) == Seq(null, "future"))
      assert(
        marking.metrics().getAs[java.sql.Timestamp]("lowWatermark") == null,
        "a partition without a stamp"
      )
    }
    withDirectory { directory =>
      val failed = stream(directory, "fail")
      intercept[Exception](failed.add(rows))
      val (condition, parameters) = failureOf(failed.streaming)
      assert(condition == "TAILRACE_WATERMARK_FUTURE" && parameters("host") == "t-1")
    }
  }

  test("transformWithState's timers follow it") {
    val session = spark
    import session.implicits._
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)({ in =>
        watermark(whole)(in.head)
          .as[Logged]
          .groupByKey(_.id)
          .transformWithState(new AccurateWatermarkSuite.Alarm, TimeMode.EventTime, OutputMode.Append)
          .toDF()
      }).start()
      assert(stream.add(logged("a" -> 5, "a" -> 100)) == Nil)
      assert(stream.add(logged("b" -> 9)) == Nil)
      assert(stream.add(logged("b" -> 10.001)).map(_.getLong(0)).contains(5000L))
    }
  }

  test("a plan is explained before there is a query") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)({ in =>
        val logs = watermark(whole)(in.head)
        val text = logs.queryExecution.explainString(org.apache.spark.sql.execution.SimpleMode)
        assert(text.contains("HostProgress") && text.contains("LowWatermark"))
        logs
      })
      stream.start()
    }
  }

  test("two accurate watermarks that report to one application need two operators") {
    withDirectory { directory =>
      checkRefused("TAILRACE_WATERMARK_OPERATOR_EXISTS", "operator" -> "source", "app" -> "my app") {
        new LoggedStream(spark, directory, sources = 2)(in =>
          in.zip(Seq("one", "two"))
            .map { case (logs, name) =>
              val at = if (name == "one") "http://127.0.0.1:1" else "http://127.0.0.1:1/"
              watermark(whole.copy(name = name, server = Some(at), app = Some("my app")))(logs)
            }
            .reduce(_ union _)
        ).start()
      }
    }
  }

  test("two accurate watermarks need two names") {
    withDirectory { directory =>
      checkRefused(
        "TAILRACE_NAME_EXISTS",
        "call" -> "tailrace.accurate_watermark",
        "name" -> "watermark"
      ) {
        new LoggedStream(spark, directory, sources = 2)(in =>
          counts(in.map(watermark(whole)).reduce(_ union _))
        ).start()
      }
    }
  }
}

object AccurateWatermarkSuite {

  /** Gives a key five seconds after its time. */
  final class Alarm extends StatefulProcessor[Long, Logged, Long] {
    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = ()

    override def handleInputRows(id: Long, rows: Iterator[Logged], timers: TimerValues): Iterator[Long] = {
      rows.foreach(row => getHandle.registerTimer(row.at.getTime + 5000))
      Iterator.empty
    }

    override def handleExpiredTimer(
        id: Long,
        timers: TimerValues,
        expired: ExpiredTimerInfo
    ): Iterator[Long] =
      Iterator(id)
  }
}
