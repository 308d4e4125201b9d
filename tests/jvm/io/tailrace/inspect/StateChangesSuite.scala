package io.tailrace.inspect

import java.io.File

import scala.util.Random

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.DataFrame

import io.tailrace.api.Tailrace
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Campaign, Engaged, Served, SparkSuite, StreamHarness}

/** What has changed between two versions, against the rows of both. */
final class StateChangesSuite extends SparkSuite {
  private val base = options("10 seconds").copy(before = "5 seconds")

  private def read(d: File, options: (String, Any)*): DataFrame =
    spark.read
      .format("tailrace-state")
      .options(options.map { case (name, value) => name -> value.toString }.toMap)
      .load(d.getPath)

  private def texts(frame: DataFrame): Seq[String] = frame.collect().map(_.toString).toSeq.sorted

  private def check(d: File, from: Long, to: Long, condition: String = "true"): (Int, Int) = {
    val (before, after) = (
      texts(read(d, "version" -> from).where(condition)),
      texts(read(d, "version" -> to).where(condition))
    )
    val changes = read(d, "from_version" -> from, "version" -> to).where(condition)
    def of(change: String): Seq[String] = texts(changes.where(s"change = '$change'").drop("change"))
    val (added, gone) = (after.diff(before), before.diff(after))
    assert(of("added") == added, s"$from to $to, $condition")
    assert(of("gone") == gone, s"$from to $to, $condition")
    (added.size, gone.size)
  }

  /** Versions over several compactions, whose watermark moves. */
  private def run(how: String, more: (String, Any)*): Unit =
    withConf(
      more ++ Seq(
        "spark.sql.streaming.minBatchesToRetain" -> 100,
        "spark.tailrace.state.compactionRuns" -> 3
      ): _*
    ) {
      withDirectory { d =>
        val output = if (how == "inner") base.copy(how = how) else base.copy(releaseEvery = Some("batch"))
        val random = new Random(3)
        def key() = if (random.nextInt(8) == 0) null else s"key ${random.nextInt(4)}"
        val h = new StreamHarness(spark, d)(join(output, "4 seconds", "4 seconds")).start()
        (1 to 9).foreach { step =>
          def time() = seconds(step * 3 - 12 + random.nextDouble() * 4)
          h.step(
            Seq.fill(6)(Served(key(), time(), random.nextInt())),
            Seq.fill(6)(Engaged(key(), time(), random.nextInt()))
          )
        }
        val last = h.batchCount
        h.stop()
        val pairs =
          for (from <- 1L to last; to <- Seq(from, from + 1, from + 5, last) if to <= last) yield from -> to
        val found = pairs.distinct.filter { case (from, to) => from % 3 == 1 || to == last }.map {
          case (from, to) => check(d, from, to)
        }
        assert(found.exists(_._1 > 0) && found.exists(_._2 > 0))
        Seq("side = 'left'", "key.k = 'key 1'", "time > TIMESTAMP '1970-01-01 00:00:03'").foreach(
          check(d, 2, last, _)
        )
      }
    }

  test("rows that came and went, over compactions and expiry")(run("left"))

  Seq(
    ("eager", "left", Seq("spark.tailrace.join.strategy" -> "eager")),
    ("pairs", "inner", Nil),
    ("format 2", "left", Seq("spark.sql.streaming.stateStore.checkpointFormatVersion" -> 2))
  ).foreach { case (name, how, settings) =>
    test(s"the same: $name", Campaign)(run(how, settings: _*))
  }

  test("versions that can't be compared are refused by name") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(join(base, "1 hour", "1 hour")).start()
      (1 to 3).foreach(i => h.step(Seq(Served("a", seconds(i.toDouble), i)), Nil))
      val last = h.batchCount
      h.stop()
      def refusal(options: (String, Any)*): (String, String) =
        intercept[Exception](read(d, options: _*)) match {
          case e: SparkThrowable => e.getCondition -> e.getMessage
          case e => throw e
        }
      assert(refusal("from_version" -> 3, "version" -> 2)._1 == "TAILRACE_OPTION_INVALID")
      assert(refusal("from_version" -> 99)._1 == "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED")
      assert(refusal("from_versoin" -> 1)._2.contains("from_version, of, operator, version"))
      assert(refusal("from_version" -> 1, "of" -> "hosts")._1 == "TAILRACE_OPTION_INVALID")
      assert(read(d, "from_version" -> last).count() == 0)
      Tailrace.rescale(spark, d.getPath, 3)
      assert(refusal("from_version" -> (last - 1))._1 == "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED")
    }
  }
}
