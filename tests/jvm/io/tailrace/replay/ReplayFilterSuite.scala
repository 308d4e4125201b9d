package io.tailrace.replay

import java.io.File
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkException
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, StreamingQueryException}
import org.apache.spark.sql.tailrace.StreamAccess
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.scalatest.concurrent.Eventually._

import io.tailrace.api.Tailrace
import io.tailrace.testkit.{Campaign, SparkSuite, TempDirectory}

/** A record of a topic that pipeline 1 has written: where it stands there, and where it comes from. */
final case class Written(
    topic: String,
    partition: Int,
    offset: Long,
    key: Array[Byte],
    value: String,
    at: Timestamp = new Timestamp(0)
)

final class ReplayFilterSuite extends SparkSuite {
  import spark.implicits._

  private type Filter = DataFrame => DataFrame
  private val byKey: Filter = Tailrace.filterReplays(_, ReplayOptions())

  /** A stream of records whose batch cuts the test decides; results by batch, as in an idempotent sink. */
  private final class Pipeline(checkpoint: File, var filter: Filter) {
    private val source = MemoryStream[Written](spark)
    private val batches = new ConcurrentSkipListMap[Long, Seq[String]]
    private var running: StreamingQuery = _
    @volatile var failNext = false
    @volatile var taking = Int.MaxValue
    @volatile var actions: Dataset[Row] => Unit = _ => ()

    def start(): Pipeline = {
      running = filter(source.toDF()).writeStream
        .outputMode(OutputMode.Append)
        .option("checkpointLocation", checkpoint.getPath)
        .foreachBatch { (rows: Dataset[Row], batch: Long) =>
          val part = if (taking < Int.MaxValue) rows.limit(taking) else rows
          batches.put(batch, part.collect().map(_.getAs[String]("value")).toSeq)
          actions(rows)
          if (failNext) {
            failNext = false
            throw new IllegalStateException("as the test wants it")
          }
        }
        .start()
      this
    }

    def restart(): Pipeline = {
      running.stop()
      start()
    }

    /** One batch. Its rows come in any order and from any task: those of the source, not the topic's. */
    def add(records: Seq[Written]): Unit = {
      StreamAccess.betweenBatches(running)(source.addData(records))
      running.processAllAvailable()
    }

    def fails(records: Seq[Written]): Unit = {
      intercept[StreamingQueryException](add(records))
      ()
    }

    def failure: (String, Map[String, String]) = failureOf(running)
    def query: StreamingQuery = running
    def counts: Row = running.lastProgress.observedMetrics.get("tailrace.replays")
    def values: Seq[String] = batches.values.asScala.flatten.toSeq
  }

  private def written(partition: Int, offset: Long, pid: Long, source: Int, position: Long): Written =
    Written("t", partition, offset, RecordMetadata.encode(pid, source, position), s"$pid/$source/$position")

  /** What pipeline 1 has written, in the topic's order: each origin's records in order, some runs of them once more. */
  private def topic(random: Random, origins: Int, length: Int): Seq[Written] = {
    val next = Array.fill(origins)(0L)
    var offset = 0L
    (0 until length).flatMap { _ =>
      val origin = random.nextInt(origins)
      if (random.nextInt(5) == 0) next(origin) = Math.max(0, next(origin) - random.nextInt(8))
      (0 to random.nextInt(4)).map { _ =>
        offset += 1 + random.nextInt(3)
        next(origin) += 1
        // Two partitions of the topic, each with some of the origins.
        written(origin % 2, offset, 100L + origin / 2, origin % 2, next(origin))
      }
    }
  }

  private def firstOfEach(records: Seq[Written]): Set[String] = records.map(_.value).toSet

  for ((count, tags) <- Campaign.sizes(1, 12))
    test(
      s"each record passes once, whatever the batches, the order in them, and restarts between them: $count times",
      tags: _*
    )((1 to count).foreach(checkOnce))

  private def checkOnce(seed: Int): Unit = withDirectory { directory =>
    val random = new Random(seed)
    val records = topic(random, 6, 120)
    val pipeline = new Pipeline(directory, byKey).start()
    var rest = records
    while (rest.nonEmpty) {
      val (batch, later) = rest.splitAt(1 + random.nextInt(60))
      rest = later
      if (random.nextInt(3) == 0) pipeline.restart()
      withConf("spark.sql.shuffle.partitions" -> (1 + random.nextInt(4)))(pipeline.add(random.shuffle(batch)))
    }
    assert(pipeline.values.sorted == firstOfEach(records).toSeq.sorted, s"seed $seed")
  }

  test("marks outlive snapshots and purges: sixty batches, replays of the first in the last") {
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

  test("a batch that failed is made again with the same marks") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      pipeline.add((0L to 9L).map(i => written(0, i, 1, 0, i)))
      pipeline.failNext = true
      pipeline.fails((5L to 19L).map(i => written(0, 10 + i, 1, 0, i)))
      pipeline.start().query.processAllAvailable()
      pipeline.add((0L to 20L).map(i => written(0, 50 + i, 1, 0, i)))
      assert(pipeline.values == (0 to 20).map(i => s"1/0/$i"))
    }
  }

  test("null and invalid metadata pass, as often as they come, and are counted") {
    withDirectory { directory =>
      val bad = Seq(null, Array.emptyByteArray, new Array[Byte](19), RecordMetadata.encode(1, -1, 0))
      val records = bad.zipWithIndex.map { case (key, i) => Written("t", 0, i.toLong, key, s"bad$i") }
      val pipeline = new Pipeline(directory, byKey).start()
      pipeline.add(records :+ written(0, 9, 1, 0, 0))
      pipeline.add(records.map(r => r.copy(offset = r.offset + 10)) :+ written(0, 19, 1, 0, 0))
      assert(pipeline.values.count(_.startsWith("bad")) == 8 && pipeline.values.count(_ == "1/0/0") == 1)
    }
  }

  test("records are judged in the order of the topic, not of the batch's rows") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      pipeline.add((9L to 0L by -1).map(i => written(0, i, 1, 0, i)))
      assert(pipeline.values.size == 10)
    }
  }

  test("disorder: a late original passes, its replay doesn't; further back than that is a replay") {
    withDirectory { directory =>
      val filter: Filter = Tailrace.filterReplays(_, ReplayOptions(disorder = 4))
      val pipeline = new Pipeline(directory, filter).start()
      val positions = Seq(10L, 14L, 12L, 12L, 13L, 9L)
      positions.zipWithIndex.foreach { case (p, i) =>
        pipeline.restart().add(Seq(written(0, i.toLong, 1, 0, p)))
      }
      assert(pipeline.values == Seq(10, 14, 12, 13).map(p => s"1/0/$p"))
    }
  }

  test("mark: replays come out, marked; three columns in place of the key") {
    val columns = ReplayOptions(metadata = Seq("pid", "p", "o"), onReplay = "mark")
    val records = Seq((7L, 0, 1L), (7L, 0, 2L), (7L, 0, 1L), (7L, 1, 1L), (7L, 0, 3L)).zipWithIndex
      .map { case ((pid, p, o), i) => ("t", 0, i.toLong, pid, p, o) }
      .toDF("topic", "partition", "offset", "pid", "p", "o")
    val found = Tailrace.filterReplays(records, columns)
    assert(found.columns.toSeq == records.columns.toSeq :+ "_mark")
    assert(
      found.orderBy("offset").select("_mark").as[String].collect().toSeq ==
        Seq(null, null, "replay", null, null)
    )
    val withNull = records.withColumn("o", org.apache.spark.sql.functions.when(col("offset") =!= 2, col("o")))
    assert(Tailrace.filterReplays(withNull, columns).where("_mark IS NOT NULL").isEmpty)
  }

  test("a batch frame gives the rows of a stream, each time that it is run") {
    val records = topic(new Random(9), 6, 100)
    val frame = byKey(records.toDF())
    (1 to 2).foreach(_ => assert(frame.select("value").as[String].collect().toSet == firstOfEach(records)))
    assert(frame.count() == firstOfEach(records).size)
    assert(Tailrace.filterReplays(records.toDF(), ReplayOptions(onReplay = "mark")).count() == records.size)
  }

  private def failsByName(pipeline: Pipeline, condition: String)(body: => Unit): Unit = {
    intercept[StreamingQueryException](body)
    assert(pipeline.failure._1 == condition)
    ()
  }

  test("a sink that leaves rows out is found out by the next batch, and at each start from then on") {
    Seq(1, 0).foreach { before =>
      withDirectory { directory =>
        val pipeline = new Pipeline(directory, byKey).start()
        if (before > 0) pipeline.add((0L to 9L).map(i => written(0, i, 1, 0, i)))
        pipeline.taking = 1
        pipeline.add((10L to 5000L).map(i => written(0, i, 1, 0, i)))
        pipeline.taking = Int.MaxValue
        // Which it is depends on whether a task without records has left its file.
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

  test("records of one origin from several partitions fail their batch, in one task and in several") {
    Seq(1, 8).foreach { tasks =>
      withDirectory { directory =>
        withConf("spark.sql.shuffle.partitions" -> tasks, "spark.sql.adaptive.enabled" -> false) {
          val pipeline = new Pipeline(directory, byKey).start()
          failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT") {
            pipeline.add((0 until 20).map(i => written(i % 8, i.toLong, 1, 0, i.toLong)))
          }
          assert(pipeline.failure._2("places").matches("t/[0-7] and t/[0-7]"))
          assert(pipeline.values.isEmpty, "nothing of it is out")
          failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT")(pipeline.start().query.processAllAvailable())
        }
      }
    }
    withConf("spark.sql.shuffle.partitions" -> 8, "spark.sql.adaptive.enabled" -> false) {
      val frame = (0 until 20).map(i => written(i % 8, i.toLong, 1, 0, i.toLong)).toDF()
      val error = intercept[SparkException](byKey(frame).collect())
      assert(error.getCondition == "TAILRACE_REPLAY_ORIGIN_SPLIT")
    }
  }

  test("an origin that is read at its home and elsewhere in one batch fails it, before any row is out") {
    Seq(0 -> 1, 1 -> 0).foreach { case (home, other) =>
      withDirectory { directory =>
        withConf("spark.sql.shuffle.partitions" -> 8, "spark.sql.adaptive.enabled" -> false) {
          val pipeline = new Pipeline(directory, byKey).start()
          pipeline.add(Seq(written(home, 0, 1, 0, 41), written(other, 0, 2, 0, 41)))
          failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT") {
            pipeline.add(
              (42L to 44L).map(i => written(home, i, 1, 0, i)) ++ (44L to 45L)
                .map(i => written(other, i, 1, 0, i))
            )
          }
          assert(pipeline.failure._2("places").split(" and ").toSet == Set("t/0", "t/1"))
          assert(pipeline.values.sorted == Seq("1/0/41", "2/0/41"), "nothing of the second batch is out")
        }
      }
    }
  }

  test(
    "marks that an earlier version has left of an origin in two tasks are begun without when a user says so"
  ) {
    withDirectory { directory =>
      withConf("spark.sql.shuffle.partitions" -> 1) {
        val pipeline = new Pipeline(directory, byKey).start()
        pipeline.add(Seq(written(0, 0, 1, 0, 5)))
        pipeline.query.stop()
        val marks = new Path(new File(directory, "tailrace-replay/replays").toURI)
        val log = new MarkLog(marks, spark.sessionState.newHadoopConf(), ReplaySettings("replays"))
        TempDirectory.delete(new File(directory, "tailrace-replay/replays/0").toPath)
        val table = new MarkTable(0)
        table.add(1, 0, 5)
        val attempt = java.util.UUID.randomUUID.toString
        (0 to 1).foreach(log.write(0, attempt, _, 2, table))
        failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT")(
          pipeline.start().add(Seq(written(0, 1, 1, 0, 6)))
        )
        withConf("spark.tailrace.replay.beginAnew" -> true)(pipeline.start().query.processAllAvailable())
        pipeline.restart().add(Seq(written(0, 2, 1, 0, 6), written(0, 3, 1, 0, 7)))
        assert(pipeline.values == Seq("1/0/5", "1/0/6", "1/0/7"))
      }
    }
  }

  test("an origin may move on to another partition between batches; what is below its mark then is refused") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      pipeline.add(Seq(written(0, 0, 1, 0, 5), written(0, 1, 1, 0, 6)))
      pipeline.restart().add(Seq(written(1, 0, 1, 0, 6), written(1, 1, 1, 0, 7), written(1, 2, 1, 0, 6)))
      assert(pipeline.values == Seq("1/0/5", "1/0/6", "1/0/7"))
      failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_MOVED")(pipeline.add(Seq(written(0, 2, 1, 0, 6))))
      assert(
        pipeline.failure._2.filter(p => Set("from", "to", "mark")(p._1)) ==
          Map("from" -> "t/1", "to" -> "t/0", "mark" -> "7")
      )
    }
    withDirectory { directory =>
      val filter: Filter = Tailrace.filterReplays(_, ReplayOptions(disorder = 10))
      val pipeline = new Pipeline(directory, filter).start()
      pipeline.add(Seq(written(0, 0, 1, 0, 5), written(0, 1, 1, 0, 8)))
      pipeline.add(Seq(written(1, 0, 1, 0, 7), written(1, 1, 1, 0, 5)))
      assert(pipeline.values == Seq("1/0/5", "1/0/8", "1/0/7"), "the window knows of each")
    }
  }

  test("keys of twenty letters are no metadata; the older form without a tag is, of the same origin") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      val text = (0 to 3).map(i => Written("t", 0, i.toLong, f"event-id-of-user-$i%03d".getBytes, s"text$i"))
      assert(text.forall(_.key.length == 20))
      pipeline.add(text ++ text.map(t => t.copy(offset = t.offset + 10)))
      assert(pipeline.values.size == 8)
      assert(
        pipeline.counts.getValuesMap[Long](Seq("passed", "replays", "unprotected", "doubtful")) ==
          Map("passed" -> 0, "replays" -> 0, "unprotected" -> 8, "doubtful" -> 8)
      )
      def untagged(offset: Long, position: Long): Written = {
        val tagged = written(0, offset, 1, 0, position)
        tagged.copy(key = tagged.key.drop(RecordMetadata.TagLength))
      }
      pipeline.add(Seq(untagged(20, 0), untagged(21, 1), written(0, 22, 1, 0, 1), written(0, 23, 1, 0, 2)))
      pipeline.add(Seq(untagged(30, 2), written(0, 31, 1, 0, 1)))
      assert(pipeline.values.drop(8) == Seq("1/0/0", "1/0/1", "1/0/2"))
      assert(pipeline.counts.getAs[Long]("replays") == 2)
    }
  }

  test("one offset beyond all others doesn't end an origin") {
    val columns = ReplayOptions(metadata = Seq("pid", "p", "o"))
    val found = Tailrace.filterReplays(
      Seq((7L, 0, 1L), (7L, 0, Long.MaxValue), (7L, 0, 2L), (7L, 0, 2L)).zipWithIndex
        .map { case ((pid, p, o), i) => ("t", 0, i.toLong, pid, p, o) }
        .toDF("topic", "partition", "offset", "pid", "p", "o"),
      columns
    )
    assert(found.orderBy("offset").select("o").as[Long].collect().toSeq == Seq(1L, Long.MaxValue, 2L))
  }

  test("gaps of two origins together are more than a number holds") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      val far = RecordMetadata.OffsetLimit - 1
      pipeline.add((0 to 5).flatMap { p =>
        Seq(written(0, p * 2L, p.toLong, 0, 0), written(0, p * 2L + 1, p.toLong, 0, far))
      })
      assert(pipeline.counts.getAs[Long]("gaps") == Long.MaxValue)
      pipeline.add(Seq(written(0, 100, 0, 0, 5)))
      assert(pipeline.counts.getAs[Long]("gaps") == 0)
    }
  }

  test("batches without data, and a source that is silent beside another, leave marks") {
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

  test("mark in a stream: replays come out, marked, in the batch that they are in") {
    withDirectory { directory =>
      val filter: Filter = frame =>
        Tailrace
          .filterReplays(frame, ReplayOptions(onReplay = "mark"))
          .withColumn("value", org.apache.spark.sql.functions.concat_ws(" ", col("value"), col("_mark")))
      val pipeline = new Pipeline(directory, filter).start()
      pipeline.add(Seq(written(0, 0, 1, 0, 5), written(0, 1, 1, 0, 5)))
      pipeline.restart().add(Seq(written(0, 2, 1, 0, 5), written(0, 3, 1, 0, 6)))
      assert(pipeline.values == Seq("1/0/5", "1/0/5 replay", "1/0/5 replay", "1/0/6"))
      assert(pipeline.counts.getAs[Long]("replays") == 1)
    }
  }

  test("what was counted is in the progress: gaps by origin too, until the missing ones come") {
    withDirectory { directory =>
      val filter: Filter = Tailrace.filterReplays(_, ReplayOptions(disorder = 10))
      val pipeline = new Pipeline(directory, filter).start()
      def batch(first: Long, records: (Long, Long)*): Unit = pipeline.add(records.zipWithIndex.map {
        case ((pid, position), i) => written(0, first + i, pid, 0, position)
      })
      batch(0, (1L, 0L), (1L, 4L), (2L, 7L), (2L, 8L), (3L, 0L), (3L, 2L), (3L, 2L))
      assert(
        pipeline.counts.getValuesMap[Long](Seq("passed", "replays", "unprotected", "gaps")) ==
          Map("passed" -> 6, "replays" -> 1, "unprotected" -> 0, "gaps" -> 4)
      )
      assert(pipeline.counts.getSeq[Row](6) == Seq(Row(1L, 0, 3L), Row(3L, 0, 1L)))
      batch(100, (1L, 2L), (1L, 2L), (1L, 5L))
      assert(pipeline.counts.getAs[Long]("gaps") == -1 && pipeline.counts.getAs[Long]("replays") == 1)
      assert(pipeline.counts.getSeq[Row](6) == Seq(Row(1L, 0, 2L)))
    }
  }

  test("what was counted is counted once, however many actions a batch has") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      pipeline.actions = rows => {
        rows.limit(1).collect()
        rows.count()
        rows.repartition(3).collect()
        rows.unionAll(rows).coalesce(1).collect()
        ()
      }
      pipeline.add(
        (0L to 9L).map(i => written((i % 2).toInt, i, i % 2, 0, i / 2 * 2)) :+ written(0, 10, 0, 0, 8)
      )
      assert(
        pipeline.counts.getValuesMap[Long](Seq("passed", "replays", "unprotected", "gaps")) ==
          Map("passed" -> 10, "replays" -> 1, "unprotected" -> 0, "gaps" -> 8)
      )
    }
  }

  private val day = 86400000L
  private def on(dayNumber: Long, record: Written): Written = record.copy(at = new Timestamp(dayNumber * day))
  private val byDay: Filter =
    Tailrace.filterReplays(_, ReplayOptions(forgetAfter = Some("30 days"), eventTime = Some("at")))

  test(
    "forget_after by event time: who was silent for longer is forgotten, by name, and counted when he is back"
  ) {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byDay).start()
      pipeline.add(Seq(on(0, written(0, 0, 1, 0, 5)), on(1, written(0, 1, 2, 0, 5))))
      // Day 31: origin 2, of day 1, is 30 days old, which isn't longer; a batch is judged by the time before it.
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
    "forget_after: one wrong clock doesn't make the others be forgotten, nor does a record without a time"
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

  test("forget_after by the time of the batches, and the table doesn't grow without end") {
    withDirectory { directory =>
      withConf("spark.sql.streaming.minBatchesToRetain" -> 2) {
        val filter: Filter = Tailrace.filterReplays(_, ReplayOptions(forgetAfter = Some("50 milliseconds")))
        val pipeline = new Pipeline(directory, filter).start()
        (0 until 70).foreach { b =>
          pipeline.add((0 until 50).map(i => written(0, b * 50L + i, b * 50L + i, 0, 0)))
        }
        // Until the last batch is old enough.
        val last = System.currentTimeMillis
        eventually(assert(System.currentTimeMillis > last + 50))
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

  test("two filters need two names, and then work side by side") {
    def twice(names: Seq[String]): Filter = frame =>
      names.map(n => Tailrace.filterReplays(frame, ReplayOptions(name = n)).select("value")).reduce(_ union _)
    withDirectory { directory =>
      checkRefused("TAILRACE_NAME_EXISTS", "call" -> "tailrace.filter_replays", "name" -> "a")(
        new Pipeline(directory, twice(Seq("a", "a"))).start()
      )
      val pipeline = new Pipeline(directory, twice(Seq("a", "b"))).start()
      (1 to 2).foreach(n => pipeline.add(Seq(written(0, n.toLong, 1, 0, 1))))
      assert(pipeline.values == Seq("1/0/1", "1/0/1"))
    }
  }

  test("what is wrong with an argument is said when the filter is made") {
    val frame = Seq(written(0, 0, 1, 0, 0)).toDF()
    def condition(options: ReplayOptions, of: DataFrame = frame): String =
      intercept[io.tailrace.common.TailraceAnalysisException](
        Tailrace.filterReplays(of, options)
      ).getCondition
    assert(condition(ReplayOptions(metadata = Seq("nokey"))) == "TAILRACE_COLUMN_NOT_FOUND")
    assert(condition(ReplayOptions(), frame.drop("offset")) == "TAILRACE_COLUMN_NOT_FOUND")
    assert(condition(ReplayOptions(metadata = Seq("value"))) == "TAILRACE_COLUMN_TYPE")
    assert(
      condition(ReplayOptions(metadata = Seq("offset", "offset", "offset"))) == "TAILRACE_COLUMN_TYPE"
    )
    val byOffset = ReplayOptions(forgetAfter = Some("1 day"), eventTime = Some("offset"))
    assert(condition(byOffset) == "TAILRACE_COLUMN_TYPE")
    val marking = ReplayOptions(onReplay = "mark")
    assert(condition(marking, frame.withColumn("_mark", lit(1))) == "TAILRACE_COLUMN_EXISTS")
    Seq(
      ReplayOptions(onReplay = "keep"),
      ReplayOptions(disorder = -1),
      ReplayOptions(disorder = 5000),
      ReplayOptions(name = "a/b"),
      ReplayOptions(order = Seq("offset")),
      ReplayOptions(forgetAfter = Some("0 seconds")),
      ReplayOptions(forgetAfter = Some("soon")),
      ReplayOptions(forgetAfter = Some("-1 day"))
    ).foreach(options => assert(condition(options) == "TAILRACE_OPTION_INVALID", options))
    assert(condition(ReplayOptions(eventTime = Some("at"))) == "TAILRACE_OPTION_NEEDS")
  }
}
