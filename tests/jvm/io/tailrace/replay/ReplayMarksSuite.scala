package io.tailrace.replay

import java.io.File
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}
import org.apache.spark.sql.tailrace.MemoryStream
import org.apache.spark.sql.{DataFrame, Dataset, Row}

import io.tailrace.api.Tailrace
import io.tailrace.testkit.{Campaign, FileFault, FileFaults, FileStep, TempDirectory, WatchedFiles}

/** The marks that a replay filter keeps: over restarts and purges, lost ones, and forgotten origins. */
final class ReplayMarksSuite extends ReplayPipelineSuite {
  import spark.implicits._

  test("marks outlive snapshots and purges: sixty batches, replays of the first in the last", Campaign) {
    withDirectory { directory =>
      withConf("spark.sql.streaming.minBatchesToRetain" -> 3) {
        val pipeline = new Pipeline(directory, byKey).start()
        (0 until 60).foreach(b =>
          pipeline.add(Seq(written(0, b * 2L, 1, 0, b), written(0, b * 2L + 1, b, 1, 5)))
        )
        pipeline.restart().add((0 until 60).map(b => written(0, 1000L + b, 1, 0, b)))
        pipeline.add((0 until 60).map(b => written(0, 2000L + b, b, 1, 5)))
        assert(pipeline.values.size == 120 && pipeline.values.distinct.size == 120)
        val kept = new File(directory, "tailrace-replay/replays").list.toSeq
        assert(kept.exists(_.endsWith(".snapshot")))
        assert(kept.size < 45, kept)
      }
    }
  }

  test("a sink that skips rows makes the next batch fail, and each start after it") {
    Seq(1, 0).foreach { before =>
      withDirectory { directory =>
        val pipeline = new Pipeline(directory, byKey).start()
        if (before > 0) pipeline.add((0L to 9L).map(i => written(0, i, 1, 0, i)))
        pipeline.taking = 1
        pipeline.add((10L to 5000L).map(i => written(0, i, 1, 0, i)))
        pipeline.taking = Int.MaxValue
        // Which it is depends on whether an earlier batch has left its file.
        def fails(body: => Unit): Unit = {
          intercept[StreamingQueryException](body)
          assert(pipeline.failure._1.startsWith("TAILRACE_REPLAY_MARKS_"))
          ()
        }
        fails(pipeline.add(Seq(written(0, 9000, 1, 0, 9000))))
        (1 to 2).foreach(_ => fails(pipeline.start().query.processAllAvailable()))
        withConf("spark.tailrace.replay.beginAnew" -> true)(pipeline.start().query.processAllAvailable())
        pipeline.restart().add(Seq(written(0, 9001, 1, 0, 9000), written(0, 9002, 1, 0, 9001)))
        assert(pipeline.values.takeRight(2) == Seq("1/0/9000", "1/0/9001"))
      }
    }
  }

  test("while a query runs no file of marks is read, however often a batch is") {
    withDirectory { directory =>
      val (marks, aside) = (new File(directory, "tailrace-replay"), new File(directory, "aside"))
      val pipeline = new Pipeline(directory, byKey).start()
      var again = Seq.empty[String]
      pipeline.actions = rows => {
        // The batch is done, and its marks are written.
        assert(marks.renameTo(aside))
        again = rows.collect().map(_.getAs[String]("value")).toSeq
        assert(rows.count() == again.size)
        assert(aside.renameTo(marks))
      }
      (0 to 2).foreach { b =>
        pipeline.add((b * 5L to b * 5L + 9).map(i => written(0, b * 100 + i, 1, 0, i)))
        assert(again.size == (if (b == 0) 10 else 5) && pipeline.values.endsWith(again))
      }
      assert(
        marks.listFiles.head.list.toSet.filterNot(_.startsWith(".")) == (0 to 2).map(b => s"$b.marks").toSet
      )
    }
  }

  test("marks that can't be written fail the batch by name, and it runs again whole") {
    withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
      withDirectory { directory =>
        val pipeline = new Pipeline(directory, byKey).start()
        pipeline.add((0L to 9L).map(i => written(0, i, 1, 0, i)))
        FileFaults.during(FileFault(FileStep.Create, "1.marks$".r)) {
          failsByName(pipeline, "TAILRACE_STATE_FILE_UNAVAILABLE") {
            pipeline.add((5L to 14L).map(i => written(0, i, 1, 0, i)))
          }
        }
        assert(pipeline.failure._2("file").endsWith("tailrace-replay/replays/1.marks"))
        pipeline.start().query.processAllAvailable()
        pipeline.add((10L to 19L).map(i => written(0, i, 1, 0, i)))
        assert(pipeline.values == (0 to 19).map(i => s"1/0/$i"))
      }
    }
  }

  test("marks that were deleted stop the query at each start, and so does another name of the filter") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      pipeline.add((0L to 9L).map(i => written(0, i, 1, 0, i)))
      pipeline.query.stop()
      pipeline.filter = Tailrace.filterReplays(_, ReplayOptions(name = "other"))
      failsByName(pipeline, "TAILRACE_REPLAY_MARKS_MISSING")(
        pipeline.start().add(Seq(written(0, 20, 1, 0, 5)))
      )
      pipeline.filter = byKey
      TempDirectory.delete(new File(directory, "tailrace-replay").toPath)
      (1 to 2).foreach { _ =>
        failsByName(pipeline, "TAILRACE_REPLAY_MARKS_MISSING")(
          pipeline.start().query.processAllAvailable()
        )
      }
      assert(pipeline.values.size == 10)
    }
  }

  test(
    "beginAnew begins without marks in which an earlier version has one origin in two tasks"
  ) {
    withDirectory { directory =>
      withConf("spark.sql.shuffle.partitions" -> 1) {
        val pipeline = new Pipeline(directory, byKey).start()
        pipeline.add(Seq(written(0, 0, 1, 0, 5)))
        pipeline.query.stop()
        val marks = new Path(directory.getPath, "tailrace-replay/replays")
        val log = new MarkLog(marks, spark.sessionState.newHadoopConf(), ReplaySettings("replays"))
        val table = new MarkTable(0)
        table.add(1, 0, 5)
        log.write(0, Seq.fill(2)(MarkFile.encodeTable(table, 0, 1, 0)))
        failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT")(
          pipeline.start().add(Seq(written(0, 1, 1, 0, 6)))
        )
        withConf("spark.tailrace.replay.beginAnew" -> true)(pipeline.start().query.processAllAvailable())
        pipeline.restart().add(Seq(written(0, 2, 1, 0, 6), written(0, 3, 1, 0, 7)))
        assert(pipeline.values == Seq("1/0/5", "1/0/6", "1/0/7"))
      }
    }
  }

  test("batches without data, and a source without data beside another, write their marks") {
    withDirectory { directory =>
      val (one, two) = (MemoryStream[Written](spark), MemoryStream[Written](spark))
      val found = new ConcurrentSkipListMap[Long, Seq[String]]
      val both = Tailrace
        .filterReplays(one.toDF(), ReplayOptions(name = "one"))
        .unionAll(Tailrace.filterReplays(two.toDF(), ReplayOptions(name = "two")))
      def start(frame: DataFrame, name: String): StreamingQuery = frame.writeStream
        .option("checkpointLocation", new File(directory, name).getPath)
        .foreachBatch { (rows: Dataset[Row], batch: Long) =>
          found.put(batch, rows.collect().map(_.getAs[String]("value")).toSeq); ()
        }
        .start()
      val query = start(both, "union")
      (0 to 5).foreach { i =>
        (if (i % 2 == 0) one else two).addData(written(0, i.toLong, i % 2L, 0, 7))
        query.processAllAvailable()
      }
      query.stop()
      assert(found.values.asScala.flatten.toSeq == Seq("0/0/7", "1/0/7"))
      found.clear()
      val late = one.toDF().withWatermark("at", "1 second").dropDuplicatesWithinWatermark("offset")
      val stateful = start(byKey(late), "stateful")
      (0 to 2).foreach { i =>
        one.addData(on(i.toLong, written(0, 100L + i, 5, 0, 1)))
        stateful.processAllAvailable()
      }
      stateful.stop()
      assert(found.values.asScala.flatten.count(_ == "5/0/1") == 1)
      assert(found.size > 3, "there were batches without data")
    }
  }

  private val day = 86400000L
  private def on(dayNumber: Long, record: Written): Written = record.copy(at = new Timestamp(dayNumber * day))
  private val byDay: Filter =
    Tailrace.filterReplays(_, ReplayOptions(forgetAfter = Some("30 days"), eventTime = Some("at")))

  test(
    "forget_after by event time forgets an origin that was silent for longer, logs it, and counts its return"
  ) {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byDay).start()
      pipeline.add(Seq(on(0, written(0, 0, 1, 0, 5)), on(1, written(0, 1, 2, 0, 5))))
      // Day 31: origin 2, of day 1, is 30 days old, which isn't longer; a batch is judged by the time before
      // it.
      pipeline.add(Seq(on(31, written(0, 10, 3, 0, 0)), on(31, written(0, 11, 1, 0, 5))))
      assert(pipeline.values.count(_ == "1/0/5") == 1, "the time before the batch was day 1")
      pipeline.restart().add(Seq(on(31, written(0, 20, 2, 0, 5))))
      assert(pipeline.values.count(_ == "2/0/5") == 1)
      assert(pipeline.counts.getAs[Long]("forgotten") == 0)
      pipeline.add(Seq(on(62, written(0, 30, 3, 0, 1))))
      pipeline.add(Seq(on(62, written(0, 40, 2, 0, 5)), on(62, written(0, 41, 2, 0, 5))))
      assert(pipeline.counts.getAs[Long]("forgotten") == 2 && pipeline.counts.getAs[Long]("returned") == 1)
      assert(pipeline.values.count(_ == "2/0/5") == 2, "it passed unjudged, once")
      pipeline.add(Seq(on(62, written(0, 50, 3, 0, 1))))
      assert(pipeline.counts.getAs[Long]("forgotten") == 0, "what was said isn't said again")
    }
  }

  test(
    "with forget_after, neither one wrong clock nor a record without a time makes other origins forgotten"
  ) {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byDay).start()
      val today = System.currentTimeMillis() / day
      pipeline.add(Seq(on(today, written(0, 0, 1, 0, 5)), written(0, 1, 4, 0, 5).copy(at = null)))
      pipeline.add(Seq(on(today + 9000, written(0, 10, 2, 0, 5))))
      pipeline.add(Seq(on(today, written(0, 20, 1, 0, 5)), on(today, written(0, 21, 4, 0, 5))))
      pipeline.add(Seq(written(0, 30, 5, 0, 5).copy(at = null)))
      pipeline.add(Seq(written(0, 40, 5, 0, 5).copy(at = null)))
      assert(pipeline.values.distinct.size == pipeline.values.size)
    }
  }

  test("forget_after by the time of the batches bounds the table", Campaign) {
    withDirectory { directory =>
      withConf("spark.sql.streaming.minBatchesToRetain" -> 2) {
        val filter: Filter = Tailrace.filterReplays(_, ReplayOptions(forgetAfter = Some("50 milliseconds")))
        val clock = new AtomicLong(100L * day)
        val pipeline = new Pipeline(directory, filter, Some(() => clock.get)).start()
        (0 until 70).foreach { b =>
          clock.addAndGet(2)
          pipeline.add((0 until 50).map(i => written(0, b * 50L + i, b * 50L + i, 0, 0)))
        }
        clock.addAndGet(51)
        pipeline.add(Seq(written(0, 9000, 3499, 0, 0)))
        assert(pipeline.values.count(_ == "3499/0/0") == 2)
        val snapshots =
          new File(directory, "tailrace-replay/replays").listFiles.filter(_.getName.endsWith("shot"))
        assert(
          snapshots.nonEmpty && snapshots.map(_.length).max < 36L * 3500 / 2,
          "half of the origins at most"
        )
      }
    }
  }
}
