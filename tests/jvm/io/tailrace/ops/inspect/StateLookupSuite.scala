package io.tailrace.ops.inspect

import java.io.File
import java.nio.file.Files
import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.{Campaign, Engaged, Served, SlowSuite, SparkSuite, StreamHarness}

/** Rows of single keys, against a filter over all rows, which Spark asks of each. */
final class StateLookupSuite extends SparkSuite with SlowSuite {

  /** Around 1970: times before it are negative. */
  private def seconds(time: Double): Timestamp = new Timestamp((time * 1000).toLong)

  private val kept = options("10 minutes")

  private def read(d: File): DataFrame = spark.read.format("tailrace-state").load(d.getPath)

  private def refusal(body: => Any): String =
    intercept[Exception](body) match {
      case e: SparkThrowable => e.getCondition
      case e => throw e
    }

  /** Rows of some keys, null among them, in several batches, some before 1970. */
  private def fill(d: File, options: JoinOptions, rows: Int = 60): Unit = {
    val random = new Random(5)
    def key() = if (random.nextInt(10) == 0) null else s"key ${random.nextInt(5)}"
    val h = new StreamHarness(spark, d)(join(options, "1 hour", "1 hour")).start()
    (1 to 4).foreach { step =>
      def time() = seconds(random.nextInt(40).toDouble - 20 + step)
      h.step(
        Seq.fill(rows)(Served(key(), time(), random.nextInt())),
        Seq.fill(rows)(Engaged(key(), time(), random.nextInt()))
      )
    }
    h.stop()
  }

  private val conditions = Seq(
    "key.k = 'key 1'",
    "'key 1' = key.k AND side = 'left'",
    "left.k = 'key 2'",
    "key.k <=> 'key 2'",
    "key.k IN ('key 0', 'nobody', 'key 3', null)",
    "key.k = 'key 1' OR key.k = 'key 4'",
    "key.k = 'key 1' AND key.k = 'key 4'",
    "key.k = 'nobody'",
    "key.k = 'key 3' AND time >= TIMESTAMP '1970-01-01 00:00:05Z' AND time < TIMESTAMP '1970-01-01 00:00:12Z'",
    "key.k = 'key 3' AND time <= TIMESTAMP '1969-12-31 23:59:55Z'",
    "key.k = 'key 3' AND partition = 1000",
    "partition IN (0, 2) AND side = 'right'",
    "operator = 3",
    "key IS NULL",
    "key.k IS NULL AND side = 'left'"
  )

  private def empty(condition: String): Boolean =
    condition.contains("'nobody'") && !condition.contains("IN") || condition == "operator = 3" ||
      condition.contains("'key 1' AND key.k = 'key 4'") || condition.contains("1000")

  private def texts(frame: DataFrame): Seq[String] = frame.collect().map(_.toString).toSeq.sorted

  /** The oracle: the conditions as columns of all rows, where nothing can be pushed. */
  private def check(d: File): Unit = {
    val all = read(d)
    val columns = all.columns.toSeq.map(col) ++ conditions.map(expr)
    val judged = all.select(columns: _*).collect().map { row =>
      row.toSeq.take(all.columns.length).mkString("[", ",", "]") -> row.toSeq.drop(all.columns.length)
    }
    conditions.zipWithIndex.foreach { case (condition, i) =>
      val wanted = judged.collect { case (row, holds) if holds(i) == true => row }.toSeq.sorted
      assert(texts(all.where(condition)) == wanted, condition)
      // Pairs need no row without a key.
      assert(wanted.nonEmpty != empty(condition) || condition.contains("NULL"), condition)
    }
  }

  Seq(
    ("hot keys", Nil, kept.copy(saltedKeys = Seq(Seq("key 1"), Seq("key 3")), saltBuckets = Some(3))),
    ("no hot keys", Seq(Campaign), kept),
    ("pairs", Seq(Campaign), kept.copy(how = "inner"))
  ).foreach { case (name, tags, options) =>
    test(s"filters give the rows that they give without being pushed: $name", tags: _*) {
      withDirectory { d =>
        fill(d, options)
        check(d)
      }
    }
  }

  test(
    "the same of eager matching, in Spark's checkpoint format 2, with each run in a file of its own",
    Campaign
  ) {
    withConf(
      "spark.tailrace.join.strategy" -> "eager",
      "spark.tailrace.state.inlineRunBytes" -> 0,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> 2
    ) {
      withDirectory { d =>
        fill(d, kept)
        check(d)
      }
    }
  }

  test("the same behind a rescaling", Campaign) {
    withDirectory { d =>
      fill(d, kept)
      Tailrace.rescale(spark, d.getPath, 7)
      check(d)
    }
  }

  private def tasks(frame: DataFrame): Int = frame.rdd.getNumPartitions

  test("a lookup reads the partition of its key alone, and few pages of it") {
    withConf("spark.tailrace.state.inlineRunBytes" -> 0, "spark.sql.shuffle.partitions" -> 5) {
      withDirectory { d =>
        fill(d, kept, rows = 3000)
        val all = read(d)
        // Two cores share the partition.
        assert(tasks(all) == 5 && tasks(all.where("key.k = 'key 1'")) == 2)
        assert(tasks(all.where("key.k = 'key 1' AND partition = 77")) == 0)
        def pages(condition: String): Long = {
          val rows = all.where(condition)
          assert(rows.collect().nonEmpty)
          rows.queryExecution.executedPlan
            .collectLeaves()
            .flatMap(_.metrics.get("pagesRead"))
            .map(_.value)
            .sum
        }
        val right = pages("side = 'right'")
        assert(pages("side = 'right' AND key.k = 'key 2'") < right / 2)
      }
    }
  }

  test("keys of several columns and types, by equality of all of them") {
    withConf("spark.sql.shuffle.partitions" -> 5)(withDirectory { d =>
      val h = new StreamHarness(spark, d)((left, right) =>
        Tailrace.join(
          left.withColumn("d", expr("if(id % 3 = 0, -0.0D, double(id))")).withWatermark("t", "1 hour"),
          right.withColumn("d", expr("if(rid % 3 = 0, 0.0D, double(rid))")).withWatermark("rt", "1 hour"),
          Seq("k" -> "k", "d" -> "d"),
          kept
        )
      ).start()
      h.add(
        (1 to 30).map(i => Served(s"key ${i % 2}", seconds(i.toDouble), i)),
        (1 to 30).map(i => Engaged(s"key ${i % 2}", seconds(i.toDouble), i))
      )
      h.settle()
      h.stop()
      val state = read(d)
      def ids(condition: String): Seq[Int] =
        state
          .where(condition)
          .selectExpr("coalesce(left.id, right.rid)")
          .collect()
          .map(_.getInt(0))
          .toSeq
          .sorted
      assert(ids("key.k = 'key 0' AND key.d = 0.0D") == Seq(6, 12, 18, 24, 30).flatMap(i => Seq(i, i)))
      assert(ids("key.k IN ('key 0', 'key 1') AND key.d IN (7, 8)") == Seq(7, 7, 8, 8))
      assert(ids("key.d = 7").size == 2)
      assert(tasks(state.where("key.k = 'key 0' AND key.d = 7")) < tasks(state.where("key.d = 7")))
    })
  }

  test("SQL names the format in a view") {
    withDirectory { d =>
      fill(d, kept)
      spark.sql(s"CREATE TEMPORARY VIEW waiting USING `tailrace-state` OPTIONS (path '${d.getPath}')")
      val counted = spark.sql("SELECT count(*) FROM waiting WHERE key.k = 'key 1'").head()
      assert(counted == Row(read(d).where("key.k = 'key 1'").count()))
      spark.catalog.dropTempView("waiting")
    }
  }

  test("damaged files are errors that name them, of a lookup too") {
    withConf("spark.tailrace.state.inlineRunBytes" -> 0) {
      withDirectory { d =>
        fill(d, kept)
        val one = read(d).where("key.k = 'key 1'")
        val partition = one.select("partition").head().getInt(0)
        val runs = new File(d, s"state/0/$partition").listFiles.filter(_.getName.endsWith(".run"))
        assert(runs.nonEmpty)
        val saved = runs.map(run => run -> Files.readAllBytes(run.toPath))
        def damaged(change: Array[Byte] => Array[Byte]): String = {
          saved.foreach { case (run, bytes) =>
            Files.delete(run.toPath)
            Files.write(run.toPath, change(bytes))
          }
          val e = intercept[Exception](one.collect())
          assert(runs.exists(run => e.getMessage.contains(run.getName)), e.getMessage)
          e.asInstanceOf[SparkThrowable].getCondition
        }
        assert(damaged(_.dropRight(1)) == "TAILRACE_STATE_FILE_CORRUPT")
        assert(damaged(_.map(byte => (byte ^ 1).toByte)) == "TAILRACE_STATE_FILE_CORRUPT")
        runs.foreach(run => Files.delete(run.toPath))
        assert(refusal(one.collect()) == "TAILRACE_STATE_FILE_MISSING")
      }
    }
  }
}
