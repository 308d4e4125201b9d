package io.tailrace.watermark

import java.io.File

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceConf
import io.tailrace.plan.MixedStateSuite
import io.tailrace.testkit.LoggedStream.{at, logged}
import io.tailrace.testkit.{Logged, LoggedStream}

/** The watermark of hosts as Spark's operators see it. */
final class AccurateWatermarkSuite extends HostsWatermarkSuite {

  test("a window closes when all hosts have passed it, also if one host is far ahead") {
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
    "the watermark waits for each host of the roster; without a roster, for each host that was seen"
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

  test("many hosts, which tasks send by number, hold the watermark as few do, over new hosts and restarts") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)(in =>
        watermark(whole.copy(hosts = None))(in.head.repartition(3)).dropDuplicates("host", "at")
      ).start()
      def add(second: Int, hosts: Range, slow: Int): Unit = {
        val rows = hosts.map(i => s"host-$i" -> (if (i == slow) second - 1.5 else second.toDouble))
        stream.add(logged(rows: _*)): Unit
        assert(stream.watermark == second - 1.501)
        assert(stream.metrics().getAs[Long]("hosts") == hosts.size)
      }
      add(10, 0 until 100, slow = 99)
      add(20, 0 until 100, slow = 0)
      add(30, 0 until 300, slow = 299)
      stream.restart()
      add(40, 0 until 300, slow = 150)
      add(50, 0 until 310, slow = 305)
      stream.add(logged("host-7" -> 9000, "host-8" -> 60))
      assert(stream.watermark == 48.499, "the others have not gone on")
    }
  }

  test("a row at exactly the watermark is on time, and one a microsecond earlier is late") {
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

  test("Spark's watermark stays behind by the delay") {
    withDirectory { directory =>
      val stream = counting(directory, whole.copy(delay = "5 seconds"))
      assert(stream.add(logged("a" -> 1, "b" -> 12)) == Nil)
      assert(stream.add(logged("a" -> 14.5)) == Nil)
      assert(stream.add(logged("a" -> 15.1, "b" -> 15.1)) == Seq(window(0, 1)))
    }
  }

  test("a restart goes on from the table of hosts, the watermark and the closed windows") {
    withDirectory { directory =>
      val stream = counting(directory, whole.copy(hosts = None))
      stream.add(logged("a" -> 1, "b" -> 1))
      assert(stream.add(logged("a" -> 100)) == Nil)
      // Without the table only host a would count, and b's rows would be late.
      stream.restart()
      assert(stream.add(logged("a" -> 200)) == Nil)
      assert(stream.watermark == 0.999)
      stream.restart()
      assert(stream.add(logged("b" -> 9)) == Nil)
      assert(stream.add(logged("b" -> 12)) == Seq(window(0, 3)))
    }
  }

  test("a batch that failed runs again with the table that it began with") {
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

  test("a missing or damaged file stops the query, and the error names it") {
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

  test("of two sources the one that lags decides, also if it has no rows yet, and after restarts") {
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

  test("filters and projections may stand between the nodes, and a DataFrame may be used twice") {
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

  test("transformWithState's timers follow it") {
    val session = spark
    import session.implicits._
    withConf(MixedStateSuite.Provider -> MixedStateSuite.RocksDB) {
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
  }

  test("a plan can be explained before its query starts") {
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
