package io.tailrace.watermark

import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.{FilterExec, WholeStageCodegenExec}
import org.apache.spark.sql.functions.broadcast
import org.apache.spark.sql.tailrace.StreamAccess
import org.apache.spark.sql.types.{StringType, StructType}

import io.tailrace.testkit.LoggedStream.{at, logged}
import io.tailrace.testkit.{Logged, LoggedStream, Slow, Warnings}

/** Single rows, and hosts without rows, and their effect on the watermark of hosts. */
final class RowsOfHostsSuite extends HostsWatermarkSuite {

  test("a row ahead of the clock is clamped, is marked, or ends the query") {
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

  test("a host that the roster leaves out is named in the log, once in each start, and counted") {
    withDirectory { directory =>
      val stream = counting(directory, whole)
      def warnings(body: => Unit): Seq[String] = Warnings.of(classOf[SourceWatermark].getName)(body)
      val first = warnings {
        stream.add(logged("a" -> 1, "web-3" -> 2))
        stream.add(logged("a" -> 2, "web-3" -> 3, "b" -> 3))
      }
      assert(
        first.size == 1 && first.head.startsWith(
          "TAILRACE_WATERMARK_HOST_UNROSTERED: there are rows of web-3,"
        )
      )
      assert(stream.metrics().getAs[Long]("unrostered") == 1 && stream.metrics().getAs[Long]("hosts") == 2)
      assert(stream.watermark == 1.999, "nothing waits for it")
      val again = warnings(stream.restart().add(logged("web-3" -> 4)): Unit)
      assert(again.size == 1)
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

  test("rows of a DataFrame that is used twice in a query are counted once") {
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

  test("a host that is silent for too long isn't waited for", Slow) {
    withClock { (directory, clock) =>
      val stream = counting(directory, whole.copy(idleAfter = Some("800 milliseconds")), clock = Some(clock))
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

  test("rows with a null host or a null time pass, and don't count") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)(in => watermark(whole)(in.head).select("id")).start()
      assert(stream.add(Seq(Logged(null, at(5), 1), Logged("a", null, 2), Logged(null, null, 3))).size == 3)
      assert(stream.metrics().getAs[Long]("passed") == 0 && stream.metrics().isNullAt(3))
    }
  }

  test("generated code gives the same rows as interpreted code, and its operators stay in one loop") {
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
      val settings = Seq(
        "spark.sql.codegen.wholeStage" -> generated,
        "spark.sql.codegen.factoryMode" -> (if (generated) "CODEGEN_ONLY" else "NO_CODEGEN")
      )
      withConf(settings: _*)(withDirectory { directory =>
        val stream = new LoggedStream(spark, directory)(in =>
          watermark(options)(in.head).filter("id < 9000 OR id % 2 = 0").select("id", "_mark")
        ).start()
        stream.add(logged("a" -> 1, "b" -> 2, "a" -> 9.001))
        stream.add(logged("a" -> 10, "b" -> 8))
        val rows = stream.add(logged("a" -> 1.9, "b" -> 2) ++ odd)
        val loops = StreamAccess.executedPlan(stream.streaming).collect {
          case loop: WholeStageCodegenExec if loop.exists(_.isInstanceOf[HostProgressExec]) => loop
        }
        assert(loops.exists(_.exists(WatermarkOfSource.settings(_).nonEmpty)) == generated)
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

  test("hosts are noted below an inner join with an empty broadcast table, which asks for no row") {
    val found = Seq(true, false).map { generated =>
      withConf("spark.sql.codegen.wholeStage" -> generated)(withDirectory { directory =>
        val schema = new StructType().add("host", StringType)
        val nobody = spark.createDataFrame(spark.sparkContext.emptyRDD[Row], schema)
        val stream = new LoggedStream(spark, directory)(in =>
          counts(watermark(whole)(in.head).join(broadcast(nobody), "host"))
        ).start()
        stream.add(logged("a" -> 10, "b" -> 12))
        stream.add(logged("a" -> 1, "b" -> 20))
        stream.add(logged("a" -> 2, "b" -> 30))
        val metrics = stream.metrics()
        assert(stream.watermark == 9.999)
        (metrics.getAs[Long]("passed"), metrics.getAs[Long]("lateRows"))
      })
    }
    assert(found == Seq(2L -> 1L, 2L -> 1L))
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
}
