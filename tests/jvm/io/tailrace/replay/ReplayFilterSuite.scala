package io.tailrace.replay

import scala.util.Random

import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.testkit.Campaign

/** The rows that a replay filter lets pass, and the counts in its progress. */
final class ReplayFilterSuite extends ReplayPipelineSuite {
  import spark.implicits._

  for ((count, tags) <- Campaign.sizes(1, 12))
    test(
      s"each record passes once, whatever the batches, their order, and restarts between them: $count times",
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

  test("a batch that failed runs again with the same marks") {
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

  test(
    "with disorder, a late original record passes and its replay does not; a record further back is a replay"
  ) {
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

  test("a batch DataFrame gives the rows of a stream, each time that it runs") {
    val records = topic(new Random(9), 6, 100)
    val frame = byKey(records.toDF())
    (1 to 2).foreach(_ => assert(frame.select("value").as[String].collect().toSet == firstOfEach(records)))
    assert(frame.count() == firstOfEach(records).size)
    assert(Tailrace.filterReplays(records.toDF(), ReplayOptions(onReplay = "mark")).count() == records.size)
  }

  test("keys of twenty letters aren't metadata; the older form without a tag is, of the same origin") {
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

  test("one very great offset doesn't make all later records of its origin replays") {
    val columns = ReplayOptions(metadata = Seq("pid", "p", "o"))
    val found = Tailrace.filterReplays(
      Seq((7L, 0, 1L), (7L, 0, Long.MaxValue), (7L, 0, 2L), (7L, 0, 2L)).zipWithIndex
        .map { case ((pid, p, o), i) => ("t", 0, i.toLong, pid, p, o) }
        .toDF("topic", "partition", "offset", "pid", "p", "o"),
      columns
    )
    assert(found.orderBy("offset").select("o").as[Long].collect().toSeq == Seq(1L, Long.MaxValue, 2L))
  }

  test("the sum of two origins' gaps doesn't overflow") {
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

  test("the progress has the counts, and gaps by origin until the missing records come") {
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

  test("each record is counted once, however many actions a batch has") {
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

  test("two filters of one query need two names") {
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

  test("a wrong argument is refused when the filter is made") {
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
