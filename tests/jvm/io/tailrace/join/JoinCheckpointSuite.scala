package io.tailrace.join

import java.io.File
import java.nio.file.Files

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.col
import org.scalatest.Assertion

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.testkit.StreamHarness.options
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Engaged, Served, SparkSuite, StreamHarness}

/** A checkpoint belongs to the settings that it was written under. */
class JoinCheckpointSuite extends SparkSuite {
  private type Query = (DataFrame, DataFrame) => DataFrame

  private val window = options("10 seconds")

  private def query(o: JoinOptions, on: (String, String) = "k" -> "k")(
      prepare: DataFrame => DataFrame
  ): Query =
    (l, r) =>
      Tailrace.join(
        prepare(l.withWatermark("t", "0 seconds")),
        r.withWatermark("rt", "0 seconds"),
        Seq(on),
        o
      )

  private val first: Query = query(window)(_.withColumn("other", col("k")))

  private def restarted(d: File, changed: Query): StreamHarness = {
    val h = new StreamHarness(spark, d)(first).start()
    h.step(Seq(Served("k", seconds(1), 1)), Seq(Engaged("k", seconds(2), 2)))
    h.stop()
    h.start(changed)
    h.add(Seq(Served("k", seconds(3), 3)), Seq(Engaged("k", seconds(4), 4)))
    h
  }

  private def checkIncompatible(changed: Query)(changes: String*): Assertion = withDirectory { d =>
    val (condition, parameters) = failureOf(restarted(d, changed).streaming)
    assert(condition == "TAILRACE_CHECKPOINT_INCOMPATIBLE")
    assert(parameters("path").endsWith("/state/0"))
    assert(parameters("changes") == changes.mkString("; "))
  }

  private val sameLeft = (l: DataFrame) => l.withColumn("other", col("k"))

  test("another window is refused, and the error has the old and the new one") {
    checkIncompatible(query(window.copy(after = "9 seconds", before = "1 second"))(sameLeft))(
      "`after` was '10 seconds' and is now '9 seconds'",
      "`before` was '0 seconds' and is now '1 second'"
    )
  }

  test("another key is refused") {
    checkIncompatible(query(window, on = "other" -> "k")(sameLeft))(
      "`on (left)` was 'k STRING' and is now 'other STRING'"
    )
  }

  test("a type of a column that hasn't all values of the old one is refused") {
    checkIncompatible(query(window)(l => sameLeft(l).withColumn("id", col("id").cast("smallint"))))(
      "left column `id` was INT and is now SMALLINT, which doesn't have all of its values"
    )
  }

  test("another kind of output is refused: it has another state") {
    checkIncompatible(query(window.copy(how = "inner"))(sameLeft))(
      "`how` was 'left' and is now 'inner'"
    )
  }

  test("other steps are refused: rows that were held back would be behind the watermark of what follows") {
    checkIncompatible(query(window.copy(releaseEvery = Some("batch")))(sameLeft))(
      "`release_every` was '156 milliseconds 250 microseconds' and is now 'batch'"
    )
  }

  /** One batch of a checkpoint, up to the watermark at 11 seconds. */
  private def begun(d: File, o: JoinOptions): StreamHarness = {
    val h = new StreamHarness(spark, d)(query(o)(sameLeft)).start()
    h.step(Seq(Served("k", seconds(11), 1)), Seq(Engaged("k", seconds(12), 2)))
    h.stop()
    h
  }

  /** What comes out when the watermark gets to 24 and to 31 seconds: row 1 expires at 21. */
  private def outOf(h: StreamHarness): Seq[Seq[Option[Int]]] = Seq(24, 31).map { second =>
    val at = seconds(second.toDouble)
    h.step(Seq(Served("x", at, second)), Seq(Engaged("x", at, second))).flatten.map(_.id)
  }

  private val steps = window.copy(releaseEvery = Some("20 seconds"))

  test("a query that names no steps goes on with those of its checkpoint") {
    // Partitions begin their steps at other times: one is enough.
    withConf("spark.sql.shuffle.partitions" -> 1) {
      Seq(
        steps -> Seq(Nil, Seq(Some(1))),
        window.copy(releaseEvery = Some("batch")) -> Seq(Seq(Some(1)), Nil)
      )
        .foreach { case (o, expected) =>
          withDirectory(d => assert(outOf(begun(d, o).start(query(window)(sameLeft))) == expected))
        }
    }
  }

  test("a checkpoint from before there were steps has none, and longer ones are refused") {
    withDirectory { d =>
      val h = begun(d, window)
      val file = new File(d, "state/0/tailrace-join.json").toPath
      val json = Files.readString(file).linesIterator.toSeq(1)
      // In format 1, which had no checksum.
      val earlier = json
        .replace(""","release_every":"156250 microseconds"""", "")
        .replace(""""format":4""", """"format":1""")
        .replace(""","layouts":[]""", "")
        .replaceFirst(""","schemas":.*\"grown":\[\]""", "")
      Files.writeString(file, earlier)
      Files.deleteIfExists(file.resolveSibling(".tailrace-join.json.crc"))
      assert(!Seq("release_every", "schema").exists(earlier.contains) && earlier.contains(""""format":1"""))
      assert(outOf(h.start(query(window)(sameLeft))) == Seq(Seq(Some(1)), Nil))
      h.stop()
      h.start(query(window.copy(releaseEvery = Some("batch")))(sameLeft))
      val at = seconds(60)
      assert(
        h.step(Seq(Served("x", at, 60)), Seq(Engaged("x", at, 60))).flatten.map(_.id) == Seq(
          Some(24),
          Some(31)
        )
      )
      h.stop()
      // It has the columns exactly from now on.
      assert(Files.readString(file).startsWith("tailrace-join 4 0\n"))
      h.start(query(steps)(sameLeft)).add(Seq(Served("k", seconds(50), 5)), Nil)
      val (condition, parameters) = failureOf(h.streaming)
      assert(condition == "TAILRACE_CHECKPOINT_INCOMPATIBLE")
      assert(parameters("changes") == "`release_every` was 'batch' and is now '20 seconds'")
    }
  }

  test("settings that don't change what the state means may change") {
    withDirectory { d =>
      val h =
        restarted(d, query(window.copy(`match` = "first", maxMatches = Some(1), into = "labels"))(sameLeft))
      h.settle()
      h.step(Seq(Served("x", seconds(50), 5)), Seq(Engaged("x", seconds(50), 5)))
      assert(h.all.map(e => e.id -> e.labels) == Seq(Some(1) -> Seq(2), Some(3) -> Seq(4)))
    }
  }

  test("a damaged settings file fails the query, and the error names the file") {
    Seq("not JSON", """{"settings": 5}""", "null", """{"format": 1, "settings": null}""").foreach { content =>
      withDirectory { d =>
        val before = new StreamHarness(spark, d)(first).start()
        before.step(Seq(Served("k", seconds(1), 1)), Nil)
        before.stop()
        val file = new File(d, "state/0/tailrace-join.json")
        Files.writeString(file.toPath, content)
        Files.deleteIfExists(new File(file.getParentFile, ".tailrace-join.json.crc").toPath)
        before.start().add(Seq(Served("k", seconds(2), 2)), Nil)
        val (condition, parameters) = failureOf(before.streaming)
        assert(condition == "TAILRACE_STATE_FILE_CORRUPT")
        assert(parameters("file").endsWith("/state/0/tailrace-join.json"))
      }
    }
  }

  test("a settings file with one other bit fails the query") {
    withDirectory { d =>
      val before = new StreamHarness(spark, d)(first).start()
      before.step(Seq(Served("k", seconds(1), 1)), Nil)
      before.stop()
      val file = new File(d, "state/0/tailrace-join.json").toPath
      val content = Files.readString(file)
      val at = content.indexOf("microseconds") - 2
      Files.writeString(file, content.updated(at, (content(at) ^ 1).toChar))
      Files.deleteIfExists(file.resolveSibling(".tailrace-join.json.crc"))
      before.start().add(Seq(Served("k", seconds(2), 2)), Nil)
      assert(failureOf(before.streaming)._1 == "TAILRACE_STATE_FILE_CORRUPT")
    }
  }

  test("a missing settings file fails the query, and the error names the file") {
    withDirectory { d =>
      val before = new StreamHarness(spark, d)(first).start()
      before.step(Seq(Served("k", seconds(1), 1)), Nil)
      before.stop()
      assert(new File(d, "state/0/tailrace-join.json").delete())
      before.start().add(Seq(Served("k", seconds(2), 2)), Nil)
      val (condition, parameters) = failureOf(before.streaming)
      assert(condition == "TAILRACE_STATE_FILE_MISSING")
      assert(parameters("file").endsWith("/state/0/tailrace-join.json"))
    }
  }
}
