package io.tailrace.ops.backfill

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.TailraceAnalysisException
import io.tailrace.testkit.SparkSuite

/** How far a backfill is, by Spark's logs, and what the hand-over takes out of them. */
final class BackfillSuite extends SparkSuite {
  private val plan = BackfillPlan(
    Seq(BackfilledStream("clicks", "at", Some(500)), BackfilledStream("shown", "t", None)),
    100,
    IndexedSeq(0L, 100L, 500L)
  )
  // A source of the pipeline's own is between the tables.
  private val own = """{"logOffset":7}"""

  private def slices(read: Int): Seq[String] = {
    val offset = SliceOffset(read, 3).json
    Seq(offset, own, offset)
  }

  private def write(directory: File, name: String, lines: Seq[String]): Unit = {
    val file = new File(directory, name)
    file.getParentFile.mkdirs()
    Files.write(file.toPath, lines.mkString("\n").getBytes): Unit
  }

  /** A checkpoint whose micro-batches have read so many slices, or live rows. */
  private def logged(begun: Seq[Seq[String]], completed: Int)(body: (Backfill, File) => Unit): Unit =
    withDirectory { d =>
      val backfill = new Backfill(spark, d.getPath)
      backfill.begin(plan, dry = false): Unit
      val conf = """{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}"""
      begun.zipWithIndex.foreach { case (sources, i) => write(d, s"offsets/$i", Seq("v1", conf) ++ sources) }
      (0 until completed).foreach { i =>
        write(d, s"commits/$i", Seq("v1", """{"nextBatchWatermarkMs":0}"""))
      }
      body(backfill, d)
    }

  private def offsets(d: File, batch: Int): Seq[String] =
    Files.readAllLines(new File(d, s"offsets/$batch").toPath).asScala.toSeq.drop(2)

  test("what is complete counts, and what has begun may have to be read again") {
    def state(begun: Seq[Seq[String]], completed: Int): BackfillState = {
      var found = Option.empty[BackfillState]
      logged(begun, completed)((backfill, _) => found = Some(backfill.state()))
      found.get
    }
    def history(read: Int, isWhole: Boolean = false) =
      BackfillState(Some(plan), read, isWhole, handedOver = false)
    assert(state(Nil, 0) == BackfillState(None, 0, isWhole = false, handedOver = false))
    assert(state(Seq(slices(1)), 0) == history(0))
    assert(state(Seq(slices(1)), 1) == history(1))
    assert(state(Seq(slices(1), slices(2)), 1) == history(1))
    val all = (1 to 3).map(slices)
    assert(state(all, 2) == history(2))
    assert(state(all, 3) == history(3, isWhole = true))
    // A micro-batch without rows follows the last slice.
    assert(state(all :+ slices(3), 3) == history(3))
    assert(state(all :+ slices(3), 4) == history(3, isWhole = true))
    val live = BackfillState(Some(plan), 3, isWhole = true, handedOver = true)
    assert(state(all.init :+ Seq("-", own, "-"), 3) == live)
    assert(state(all :+ Seq(own, own, own), 3) == live)
  }

  test("the hand-over takes the slices out of the two newest entries, and nothing else") {
    logged((1 to 3).map(slices), 3) { (backfill, d) =>
      assert(backfill.handOver().handedOver)
      assert((0 to 2).map(offsets(d, _)) == Seq(slices(1), Seq("-", own, "-"), Seq("-", own, "-")))
      assert(backfill.handOver() == backfill.state())
    }
    // The first micro-batch has no entry before it.
    logged(Seq(slices(3)), 1) { (backfill, d) =>
      assert(backfill.handOver().handedOver && offsets(d, 0) == Seq("-", own, "-"))
    }
  }

  test("a backfill that isn't complete isn't handed over") {
    Seq((1 to 2).map(slices) -> 2, (1 to 3).map(slices) -> 2).foreach { case (begun, completed) =>
      logged(begun, completed) { (backfill, d) =>
        checkRefused(
          "TAILRACE_BACKFILL_UNFINISHED",
          "checkpoint" -> d.getPath,
          "read" -> "2",
          "slices" -> "3"
        )(backfill.handOver())
        assert(begun.indices.map(offsets(d, _)) == begun)
      }
    }
    // The micro-batch without rows may have closed windows, and runs again.
    logged((1 to 3).map(slices) :+ slices(3), 3) { (backfill, _) =>
      val refused = intercept[TailraceAnalysisException](backfill.handOver())
      assert(refused.getCondition == "TAILRACE_BACKFILL_UNFINISHED")
    }
  }

  test("a backfill that has read something goes on as it has begun, and a dry run begins none") {
    val other = plan.copy(step = 200)
    withDirectory { d =>
      val backfill = new Backfill(spark, new File(d, "c").getPath)
      assert(backfill.begin(plan, dry = true) == plan && !new File(d, "c").exists)
      assert(backfill.begin(other, dry = false) == other)
      assert(backfill.begin(plan, dry = false) == plan, "nothing has been read")
    }
    logged(Seq(slices(1)), 0) { (backfill, _) =>
      Seq(true, false).foreach { dry =>
        assert(backfill.begin(plan.copy(starts = IndexedSeq(7L)), dry) == plan)
        val refused = intercept[TailraceAnalysisException](backfill.begin(other, dry))
        assert(refused.getCondition == "TAILRACE_BACKFILL_CHANGED")
      }
    }
    logged(Seq(Seq(own)), 1) { (backfill, d) =>
      Files.delete(new File(d, "tailrace-backfill.json").toPath)
      checkRefused("TAILRACE_BACKFILL_OTHER_QUERY", "checkpoint" -> d.getPath)(
        backfill.begin(plan, dry = true)
      )
    }
  }

  test("the first difference of two plans is told; the order of their streams is none") {
    def told(change: BackfilledStream => BackfilledStream): Option[String] =
      plan.difference(plan.copy(streams = plan.streams.map(change)))
    assert(plan.difference(plan.copy(streams = plan.streams.reverse, starts = IndexedSeq(1L))).isEmpty)
    assert(
      told(one => if (one.name == "shown") one.copy(name = "viewed") else one)
        .contains("the streams clicks, shown, not clicks, viewed")
    )
    assert(plan.difference(plan.copy(streams = plan.streams.take(1))).exists(_.startsWith("the streams ")))
    assert(
      told(one => if (one.name == "shown") one.copy(time = "at") else one)
        .contains("time t for 'shown', not at")
    )
    assert(
      told(one => if (one.name == "shown") one.copy(until = Some(500)) else one)
        .contains("until none for 'shown', not 1970-01-01T00:00:00.000500Z")
    )
    assert(
      told(one => if (one.name == "clicks") one.copy(until = Some(501)) else one)
        .contains("until 1970-01-01T00:00:00.000500Z for 'clicks', not 1970-01-01T00:00:00.000501Z")
    )
    assert(plan.difference(plan.copy(step = 101)).exists(_.startsWith("steps of ")))
  }

  test("sources with names are refused") {
    withConf(SparkCheckpoint.NamedSources -> true) {
      checkRefused("TAILRACE_BACKFILL_NAMED_SOURCES")(logged(Nil, 0)((_, _) => ()))
    }
  }
}
