package io.tailrace.label

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.tailrace.MemoryStream

import io.tailrace.api.Tailrace
import io.tailrace.testkit.{Campaign, SparkSuite}

/** Keys that are split over partitions: the rows are those of a join that doesn't split them. */
final class SaltedKeysSuite extends SparkSuite {
  import spark.implicits._

  private type Event = (java.lang.Long, String, Timestamp, Int)
  private val options = JoinOptions("at", "logged", after = "20 seconds", before = "3 seconds")
  private val on = Seq("item" -> "product", "kind" -> "sort")

  private def events(random: Random, batch: Int, first: Int): Seq[Event] = (0 until 60).map { i =>
    val item = if (random.nextInt(3) > 0) 7L else random.nextInt(4).toLong
    val key = if (random.nextInt(10) == 0) null else Long.box(item)
    val kind = if (random.nextInt(4) == 0) "b" else "a"
    (key, kind, new Timestamp(1700000000000L + batch * 30000 + random.nextInt(30000)), first + i)
  }

  private def lefts(frame: DataFrame) =
    frame.toDF("item", "kind", "at", "id").withWatermark("at", "40 seconds")

  private def rights(frame: DataFrame) =
    frame.toDF("product", "sort", "logged", "n").withWatermark("logged", "40 seconds")

  private def run(options: JoinOptions, partitions: Int): Seq[String] = {
    val (left, right) = (MemoryStream[Event](spark), MemoryStream[Event](spark))
    val out = Tailrace.join(lefts(left.toDF()), rights(right.toDF()), on, options)
    withConf("spark.sql.shuffle.partitions" -> partitions) {
      withDirectory { root =>
        val query = out.writeStream
          .format("memory")
          .queryName("hot")
          .option("checkpointLocation", root.getPath)
          .start()
        val random = new Random(3)
        (0 until 4).foreach { batch =>
          left.addData(events(random, batch, batch * 100))
          right.addData(events(random, batch, 1000 + batch * 100))
          query.processAllAvailable()
        }
        val far = new Timestamp(1800000000000L)
        left.addData((Long.box(99), "z", far, 9000))
        right.addData((Long.box(99), "z", far, 9001))
        query.processAllAvailable()
        query.stop()
        val rows = spark.table("hot")
        assert(rows.columns.toSeq == out.columns.toSeq)
        rows.collect().toSeq.map(_.toString).sorted
      }
    }
  }

  Seq(
    ("groups", "lazy", options),
    ("groups with a bound", "eager", options.copy(maxMatches = Some(2))),
    ("pairs", "eager", options.copy(how = "inner"))
  ).foreach { case (name, strategy, chosen) =>
    val tags = if (strategy == "lazy") Nil else Seq(Campaign)
    test(s"$name, $strategy: split and not split", tags: _*) {
      withConf("spark.tailrace.join.strategy" -> strategy) {
        val plain = run(chosen, 3)
        assert(plain.size > 100)
        assert(
          run(chosen.copy(saltedKeys = Seq(Seq(7L, "a"), Seq(7, "b")), saltBuckets = Some(5)), 2) == plain
        )
      }
    }
  }

  test("batch DataFrames") {
    val random = new Random(5)
    val left = lefts(events(random, 0, 0).toDF())
    val right = rights(events(random, 0, 1000).toDF())
    def rows(options: JoinOptions) = Tailrace.join(left, right, on, options).collect().map(_.toString).sorted
    assert(rows(options.copy(saltedKeys = Seq(Seq(7L, "a")))).sameElements(rows(options)))
  }

  test("a hot key is the work of several partitions") {
    val hot = options.copy(saltedKeys = Seq(Seq(7L, "a")), saltBuckets = Some(8))
    val times = (0 until 400).map(i => (Long.box(7), "a", new Timestamp(1700000000000L + i * 10), i))
    def taskRows(options: JoinOptions): Seq[Long] = {
      val joined = Tailrace.join(lefts(times.toDF()), rights(times.take(3).toDF()), on, options)
      val withTask = joined.selectExpr("spark_partition_id() AS part").groupBy("part").count()
      withTask.collect().toSeq.map(_.getLong(1))
    }
    withConf("spark.sql.adaptive.enabled" -> false, "spark.sql.shuffle.partitions" -> 16) {
      assert(taskRows(options) == Seq(400))
      val split = taskRows(hot)
      assert(split.sum == 400 && split.size > 3)
    }
  }

  test("a number of buckets without keys is refused, also if it is the default") {
    val (left, right) = (lefts(Seq.empty[Event].toDF()), rights(Seq.empty[Event].toDF()))
    checkRefused(
      "TAILRACE_OPTION_NEEDS",
      "call" -> "tailrace.join",
      "argument" -> "salt_buckets",
      "value" -> "8",
      "needed" -> "salted_keys"
    )(Tailrace.join(left, right, on, options.copy(saltBuckets = Some(8))))
  }

  test("what can't be") {
    val (left, right) = (lefts(Seq.empty[Event].toDF()), rights(Seq.empty[Event].toDF()))
    def refused(argument: String, value: String, allowed: String, options: JoinOptions): Unit = checkRefused(
      "TAILRACE_OPTION_INVALID",
      "call" -> "tailrace.join",
      "argument" -> argument,
      "value" -> value,
      "allowed" -> allowed
    )(Tailrace.join(left, right, on, options))
    val hot = options.copy(saltedKeys = Seq(Seq(7L, "a")))
    refused("salt_buckets", "1", "a whole number from 2 to 1024", hot.copy(saltBuckets = Some(1)))
    refused("salt_buckets", "1025", "a whole number from 2 to 1024", hot.copy(saltBuckets = Some(1025)))
    refused(
      "salted_keys",
      "7",
      "one value for each key column, 2, in each of the keys",
      hot.copy(saltedKeys = Seq(Seq(7)))
    )
    checkRefused(
      "TAILRACE_OPTION_CONFLICT",
      "call" -> "tailrace.join",
      "argument" -> "on_late",
      "value" -> "mark",
      "other" -> "salted_keys",
      "reason" -> "a late right row would be emitted once for each bucket"
    )(Tailrace.join(left, right, on, hot.copy(onLate = "mark")))
  }
}
