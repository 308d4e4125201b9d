package io.tailrace.ops.why

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.fs.Path

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.testkit.SparkSuite

final class OffsetTextSuite extends SparkSuite {

  /** Spark's log of a query whose batches read up to these offsets of one source. */
  private def text(sources: String*): Seq[String] = withDirectory { d =>
    val offsets = new File(d, "offsets")
    Files.createDirectories(offsets.toPath)
    sources.zipWithIndex.foreach { case (source, batch) =>
      val noted = s"""{"batchWatermarkMs":0,"batchTimestampMs":${1767268800000L + batch * 60000},"conf":{}}"""
      Files.writeString(new File(offsets, batch.toString).toPath, s"v1\n$noted\n$source")
    }
    OffsetText.of(
      new SparkCheckpoint(new Path(d.getPath), spark.sessionState.newHadoopConf()),
      sources.size - 1L
    )
  }

  test("a partition that stands still is named, with the time since when, if others of the topic go on") {
    assert(
      text(
        """{"clicks":{"0":40,"1":70,"2":5}}""",
        """{"clicks":{"0":90,"1":70,"2":6}}""",
        """{"clicks":{"0":95,"1":70,"2":6}}"""
      ) == Seq(
        "Nothing was read of clicks-1 since batch 0 of 2026-01-01T12:00:00Z or before, clicks-2 since batch 1 of " +
          "2026-01-01T12:01:00Z or before, while other partitions of the topic gave records. What they have that " +
          "wasn't read is unknown here."
      )
    )
  }

  test("where all partitions go on, all stand still, or the source isn't Kafka's, nothing is said") {
    assert(text("""{"clicks":{"0":40,"1":70}}""", """{"clicks":{"0":41,"1":71}}""").isEmpty)
    assert(text("""{"clicks":{"0":40,"1":70}}""", """{"clicks":{"0":40,"1":70}}""").isEmpty)
    assert(text("""{"clicks":{"0":40,"1":70}}""").isEmpty)
    assert(text("3", "3").isEmpty && text("""{"logOffset":3}""", """{"logOffset":3}""").isEmpty)
    assert(
      text("-", "-").isEmpty && text("""{"batch":"7","run":"0"}""", """{"batch":"7","run":"0"}""").isEmpty
    )
  }
}
