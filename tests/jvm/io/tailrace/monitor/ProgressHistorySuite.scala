package io.tailrace.monitor

import java.io.File
import java.nio.file.Files
import java.sql.Timestamp
import java.time.Instant

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.common.TailraceAnalysisException
import io.tailrace.testkit.{SlowSuite, Warnings}

final class ProgressHistorySuite extends CountedProgress with SlowSuite {

  private def withHistory(body: (File, ProgressHistory) => Unit): Unit =
    withDirectory(root => keepIn(new File(root, "history"))(body(new File(root, "history"), _)))

  private def keepIn(directory: File)(body: ProgressHistory => Unit): Unit = {
    val conf = spark.sparkContext.hadoopConfiguration
    val history = new ProgressHistory(new Path(directory.toURI), conf, "application")
    try body(history)
    finally history.close()
  }

  private def read(directory: File): DataFrame =
    spark.read.format("tailrace-progress").load(new Path(directory.toURI).toString)

  private def files(directory: File): Seq[File] =
    Option(directory.listFiles).toSeq.flatten
      .flatMap(day => day.listFiles)
      .filter(_.getName.endsWith(".json"))

  test("a row a micro-batch, with what its progress says") {
    withHistory { (directory, history) =>
      progresses.foreach(add(history, _))
      assert(files(directory).isEmpty)
      history.flush()
      assert(files(directory).size == 1)
      val lines = Files.readAllLines(files(directory).head.toPath)
      assert(lines.size == progresses.size)
      lines.forEach(line => assert(line.contains("\"format\":1")))
      val rows = read(directory).orderBy("batch_id").collect().toSeq
      assert(rows.size == progresses.size)
      rows.zip(progresses).foreach { case (row, progress) =>
        val operator = progress.stateOperators.head
        val watermark = Instant.parse(progress.eventTime.get("watermark"))
        val began = Instant.parse(progress.timestamp)
        assert(row.getAs[String]("query") == "counted")
        assert(row.getAs[String]("query_id") == progress.id.toString)
        assert(row.getAs[String]("run_id") == progress.runId.toString)
        assert(row.getAs[Long]("batch_id") == progress.batchId)
        assert(row.getAs[Timestamp]("began").toInstant == began)
        assert(row.getAs[Double]("seconds") == progress.batchDuration / 1e3)
        assert(row.getAs[Long]("input_rows") == progress.numInputRows)
        assert(row.getAs[Long]("late_rows") == operator.numRowsDroppedByWatermark)
        assert(row.getAs[Long]("waiting_rows") == operator.numRowsTotal)
        assert(row.getAs[Long]("state_bytes") == operator.memoryUsedBytes)
        val moved = watermark != Instant.EPOCH
        assert(Option(row.getAs[Timestamp]("watermark")).map(_.toInstant) == Option.when(moved)(watermark))
        val lag = Option.when(moved)((began.toEpochMilli - watermark.toEpochMilli) / 1e3)
        assert(Option(row.getAs[Any]("lag_seconds")) == lag)
      }
      assert(rows.exists(_.getAs[Long]("late_rows") == 1))
      assert(rows.exists(_.isNullAt(rows.head.fieldIndex("watermark"))))
      val late = read(directory)
        .selectExpr("batch_id", "inline(metrics)")
        .where("metric = 'state_late_rows' AND labels['operator'] = 'stateStoreSave' AND value = 1")
      assert(late.count() == 1)
    }
  }

  test("files of two flushes and of two applications are one history") {
    withHistory { (directory, history) =>
      add(history, progresses.head)
      history.flush()
      history.flush()
      assert(files(directory).size == 1, "nothing waits")
      add(history, progresses.last)
      history.flush()
      val conf = spark.sparkContext.hadoopConfiguration
      val other = new ProgressHistory(new Path(directory.toURI), conf, "other")
      add(other, progresses.head)
      other.close()
      assert(files(directory).size == 3)
      assert(read(directory).count() == 3)
    }
  }

  test("a directory that can't be written to loses nothing: lines wait, up to a limit") {
    withHistory { (directory, history) =>
      Files.writeString(directory.toPath, "a file is in the way")
      add(history, progresses.head)
      val warned = Warnings.of(classOf[ProgressHistory].getName)(history.flush())
      assert(warned.size == 1)
      assert(warned.head.contains(s"can't be written to ${new Path(directory.toURI)}: "))
      assert(!warned.head.contains("state file"), warned.head)
      add(history, progresses.last)
      history.flush()
      Files.delete(directory.toPath)
      history.flush()
      assert(
        read(directory).select("batch_id").collect().map(_.getLong(0)).sorted.toSeq ==
          Seq(progresses.head.batchId, progresses.last.batchId).sorted
      )
      (0 to ProgressHistory.Most + 1).foreach(_ => add(history, progresses.head))
      history.flush()
      assert(read(directory).count() == 2 + ProgressHistory.Most)
    }
  }

  test("a filter of the time reads the days that it names; a damaged line of those fails") {
    withHistory { (directory, history) =>
      progresses.foreach(add(history, _))
      history.flush()
      val began = Instant.parse(progresses.head.timestamp)
      val old = new File(directory, "date=2020-01-01")
      assert(old.mkdir())
      Files.writeString(new File(old, "damaged.json").toPath, "{\"query\":")
      def count(condition: String): Long = read(directory).where(condition).count()
      assert(count(s"began >= TIMESTAMP '$began'") == progresses.size)
      assert(count("began > TIMESTAMP '2020-01-02T00:00:00Z'") == progresses.size)
      assert(count("began < TIMESTAMP '2019-12-31T00:00:00Z'") == 0)
      assert(count("began <= TIMESTAMP '2019-12-31T00:00:00Z'") == 0)
      val failure = intercept[Exception](read(directory).count())
      assert(
        Iterator
          .iterate[Throwable](failure)(_.getCause)
          .takeWhile(_ != null)
          .exists(_.getMessage.contains("damaged.json"))
      )
    }
  }

  test("no directory, and one that has no history, are refused") {
    withDirectory { root =>
      Files.writeString(new File(root, "other.json").toPath, "{}")
      Seq[() => Any](
        () => spark.read.format("tailrace-progress").load(),
        () => read(root),
        () => read(new File(root, "elsewhere"))
      ).foreach { load =>
        val refused = intercept[TailraceAnalysisException](load())
        assert(refused.getCondition == "TAILRACE_OPTION_INVALID")
        assert(refused.getMessage.contains("spark.tailrace.monitor.history"))
      }
    }
  }

  test("a directory is read by its name, also where that is a pattern of others") {
    withDirectory { root =>
      keepIn(new File(root, "history1"))(add(_, progresses.head))
      keepIn(new File(root, "other"))(add(_, progresses.head))
      Seq("history[1]", "history*", "history?", "{history1,other}", "history\\1").foreach { name =>
        keepIn(new File(root, name))(add(_, progresses.last))
        val rows = read(new File(root, name)).select("batch_id").collect().toSeq
        assert(rows == Seq(Row(progresses.last.batchId)), name)
      }
    }
  }

  test("the end of a query is a row, and what has ended it") {
    withHistory { (directory, history) =>
      add(history, progresses.last)
      val (id, run) = (progresses.last.id, progresses.last.runId)
      history.end("counted", new QueryTerminatedEvent(id, run, None))
      history.end("counted", new QueryTerminatedEvent(id, run, Some("it's \"broken\"\n" + "x" * 20000)))
      val rows =
        read(directory).selectExpr("query", "run_id", "batch_id", "ended", "left(error, 15)", "length(error)")
      assert(
        rows.collect().toSet == Set(
          Row("counted", run.toString, progresses.last.batchId, false, null, null),
          Row("counted", run.toString, null, true, null, null),
          Row("counted", run.toString, null, true, "it's \"broken\"\nx", 10000)
        )
      )
    }
  }

  test("columns stay in their order whatever is selected") {
    withHistory { (directory, history) =>
      add(history, progresses.head)
      history.flush()
      val row = read(directory).select("waiting_rows", "query", "batch_id").head()
      assert(
        row.toSeq == Seq(progresses.head.stateOperators.head.numRowsTotal, "counted", progresses.head.batchId)
      )
      assert(read(directory).schema == ProgressReport.Schema)
      assert(read(directory).select().count() == 1)
    }
  }
}
