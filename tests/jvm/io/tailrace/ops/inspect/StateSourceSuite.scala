package io.tailrace.ops.inspect

import java.io.File
import java.sql.Timestamp

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceConf
import io.tailrace.join.JoinCheckpoint
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Campaign, Engaged, Served, SlowSuite, SparkSuite, StreamHarness}

final class StateSourceSuite extends SparkSuite with SlowSuite {
  private val batch = options("10 seconds").copy(before = "5 seconds", releaseEvery = Some("batch"))

  private def read(d: File, options: (String, String)*): DataFrame =
    spark.read.format("tailrace-state").options(options.toMap).load(d.getPath)

  private def lefts(frame: DataFrame): Seq[Served] =
    frame.where("side = 'left'").selectExpr("left.*").collect().toSeq.map { row =>
      Served(row.getAs[String]("k"), row.getAs[Timestamp]("t"), row.getAs[Int]("id"))
    }

  private def rights(frame: DataFrame): Seq[Engaged] =
    frame.where("side = 'right'").selectExpr("key.k", "right.*").collect().toSeq.map { row =>
      Engaged(row.getAs[String]("k"), row.getAs[Timestamp]("rt"), row.getAs[Int]("rid"))
    }

  private def refusal(body: => Any): (String, String) =
    intercept[Exception](body) match {
      case e: SparkThrowable => e.getCondition -> e.getMessage
      case e => throw e
    }

  /** Random rows whose watermark moves, over several batches, some of them with a null key. */
  private def run(d: File, random: Random, how: String)(
      check: (Seq[Served], Seq[Engaged], Set[Int]) => Unit
  ): Unit = {
    val output = if (how == "inner") batch.copy(how = how, releaseEvery = None) else batch.copy(how = how)
    val harness = new StreamHarness(spark, d)(join(output, "4 seconds", "4 seconds")).start()
    def key() = if (random.nextInt(8) == 0) null else s"key ${random.nextInt(4)}"
    try {
      val (served, engaged) = (1 to 6).map { step =>
        def time() = seconds(step * 4 + random.nextDouble() * 4)
        (
          Seq.fill(random.nextInt(8))(Served(key(), time(), random.nextInt(1000000))),
          Seq.fill(random.nextInt(8))(Engaged(key(), time(), random.nextInt(1000000)))
        )
      }.unzip
      served.zip(engaged).indices.foreach { i =>
        harness.step(served(i), engaged(i))
        check(
          served.take(i + 1).flatten,
          engaged.take(i + 1).flatten.filter(_.k != null),
          harness.all.flatMap(_.id).toSet
        )
      }
    } finally harness.stop()
  }

  Seq("lazy", "eager").foreach { strategy =>
    Seq(1, 2).foreach { format =>
      val tags = if (format == 2 || strategy == "eager") Seq(Campaign) else Nil
      test(
        s"each row that waits is there once, and none that has come out: $strategy, format $format",
        tags: _*
      ) {
        withConf(
          TailraceConf.JoinStrategy.key -> strategy,
          "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format
        ) {
          withDirectory { d =>
            run(d, new Random(7 + format), "left") { (served, engaged, out) =>
              if (served.nonEmpty || engaged.nonEmpty) {
                val state = read(d)
                assert(lefts(state).sortBy(_.id) == served.filterNot(row => out(row.id)).sortBy(_.id))
                checkRights(state, engaged, lefts(state), isLazy = strategy == "lazy")
              }
            }
          }
        }
      }
    }
  }

  test("of pairs, the rows are there that may still match", Campaign) {
    withDirectory { d =>
      run(d, new Random(11), "inner") { (served, engaged, _) =>
        if (served.nonEmpty || engaged.nonEmpty) {
          val state = read(d)
          val found = lefts(state)
          assert(found.distinct == found && found.forall(served.contains))
          checkRights(state, engaged, found)
        }
      }
    }
  }

  /** Each that is needed, once. Lazy matching needs all that may match a row that waits. The others have found those
    * matches, and need what may match a row that is still to come.
    */
  private def checkRights(
      state: DataFrame,
      engaged: Seq[Engaged],
      waiting: Seq[Served],
      isLazy: Boolean = false
  ): Unit = {
    val found = rights(state)
    assert(found.distinct == found && found.forall(engaged.contains))
    val newest = (engaged.map(_.rt) ++ waiting.map(_.t)).map(_.getTime).maxOption
    val needed = engaged.filter { e =>
      if (isLazy) waiting.exists { s =>
        s.k == e.k && e.rt.getTime >= s.t.getTime - 5000 && e.rt.getTime <= s.t.getTime + 10000
      }
      else newest.exists(e.rt.getTime >= _ - 4000)
    }
    assert(needed.nonEmpty || engaged.isEmpty || isLazy)
    assert(needed.forall(found.contains))
  }

  private def three(d: File): Unit = {
    val h = new StreamHarness(spark, d)(join(batch)).start()
    h.step(Seq(Served("a", seconds(1), 1), Served(null, seconds(2), 2)), Seq(Engaged("a", seconds(3), 3)))
    h.step(Seq(Served("b", seconds(5), 4)), Nil)
    h.stop()
  }

  test("columns have the names and types of the join's, and are pruned") {
    withDirectory { d =>
      three(d)
      val state = read(d)
      assert(
        state.schema.toDDL == "operator BIGINT NOT NULL,partition INT NOT NULL,side STRING NOT NULL," +
          "time TIMESTAMP NOT NULL,key STRUCT<k: STRING>,left STRUCT<k: STRING, t: TIMESTAMP, id: INT>," +
          "right STRUCT<rt: TIMESTAMP, rid: INT>"
      )
      assert(
        state.select("left.id", "side", "time", "key.k", "operator").orderBy("id").collect().toSeq ==
          Seq(
            Row(null, "right", seconds(3), "a", 0L),
            Row(1, "left", seconds(1), "a", 0L),
            Row(2, "left", seconds(2), null, 0L),
            Row(4, "left", seconds(5), "b", 0L)
          )
      )
      assert(state.count() == 4)
    }
  }

  test("filters of side and time give the same rows as without a look at sections") {
    withDirectory { d =>
      three(d)
      def count(condition: String): Long = read(d).where(condition).count()
      assert(count("side = 'left'") == 3 && count("side = 'right'") == 1 && count("side = 'up'") == 0)
      val (two, three_) = (s"TIMESTAMP '${seconds(2)}'", s"TIMESTAMP '${seconds(3)}'")
      assert(count(s"time < $two") == 1 && count(s"time <= $two") == 2)
      assert(count(s"time > $two") == 2 && count(s"time >= $two") == 3 && count(s"time = $two") == 1)
      assert(count(s"side = 'left' AND time > $two AND time < $three_") == 0)
      assert(count(s"time = $two OR side = 'right'") == 2)
    }
  }

  test("a version that is asked for; the newest one stays what it was when it was loaded") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(join(batch)).start()
      h.step(Seq(Served("a", seconds(1), 1)), Nil)
      val first = h.batchCount
      val loaded = read(d)
      h.step(Seq(Served("a", seconds(2), 2)), Nil)
      assert(lefts(loaded).map(_.id) == Seq(1))
      assert(lefts(read(d, "version" -> first.toString)).map(_.id) == Seq(1))
      assert(lefts(read(d)).map(_.id).sorted == Seq(1, 2))
      h.stop()
      assert(refusal(read(d, "version" -> "99"))._1 == "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED")
    }
  }

  private val oddNames = Seq[(DataFrame => DataFrame, String, Any, String)](
    (_.withColumn("my int, n", lit(1)), "my int, n", 1, "column k has no value of type STRING"),
    (_.withColumn("coalesce(x, date, q)", lit("text")), "coalesce(x, date, q)", "text", "columns"),
    (_.withColumn("a bigint, b", lit("text beyond a word")), "a bigint, b", "text beyond a word", "columns")
  )

  test("columns have their values, whatever their names read as") {
    oddNames.foreach { case (renamed, name, value, _) =>
      withDirectory { d =>
        val h = new StreamHarness(spark, d)((l, r) => join(batch)(renamed(l), r)).start()
        h.step(Seq(Served("a", seconds(1), 1)), Nil)
        h.stop()
        assert(read(d).select(s"left.`$name`").collect().toSeq == Seq(Row(value)))
      }
    }
  }

  test(
    "a name that reads as several columns fails the query in a checkpoint that has columns as texts only"
  ) {
    oddNames.foreach { case (renamed, _, _, reason) =>
      withDirectory { d =>
        val h = new StreamHarness(spark, d)((l, r) => join(batch)(renamed(l), r)).start()
        h.step(Seq(Served("a", seconds(1), 1)), Nil)
        h.stop()
        val operator = new Path(d.getPath, "state/0")
        val conf = new Configuration
        JoinCheckpoint.write(operator, conf, JoinCheckpoint.read(operator, conf, 1).copy(schemas = Nil))
        val (condition, message) = refusal(read(d).select("left").collect())
        assert(condition == "TAILRACE_STATE_COLUMNS_UNREADABLE" && message.contains(reason), message)
        assert(read(d).select("side", "key.k").collect().toSeq == Seq(Row("left", "a")))
      }
    }
  }

  test("a key whose name reads as several columns fails the query, too") {
    withDirectory { d =>
      val name = "an int, k"
      val h = new StreamHarness(spark, d)((l, r) =>
        Tailrace.join(
          l.withColumnRenamed("k", name).withWatermark("t", "0 seconds"),
          r.withColumnRenamed("k", name).withWatermark("rt", "0 seconds"),
          Seq(name -> name),
          batch
        )
      ).start()
      h.add(Seq(Served("a", seconds(1), 1)), Nil)
      h.settle()
      h.stop()
      val (condition, message) = refusal(read(d).select("key").collect())
      assert(
        condition == "TAILRACE_STATE_COLUMNS_UNREADABLE" && message.contains("a key has other columns"),
        message
      )
    }
  }

  test("the parts of hot keys aren't seen: each row is there once") {
    withDirectory { d =>
      val h =
        new StreamHarness(spark, d)(join(batch.copy(saltedKeys = Seq(Seq("a")), saltBuckets = Some(3))))
          .start()
      h.step(
        (1 to 6).map(i => Served("a", seconds(i), i)) :+ Served("b", seconds(1), 7),
        Seq(Engaged("a", seconds(2), 1), Engaged("b", seconds(2), 2))
      )
      h.stop()
      assert(read(d).schema("key").dataType.sql == "STRUCT<k: STRING>")
      assert(read(d).schema("left").dataType.sql == "STRUCT<k: STRING, t: TIMESTAMP, id: INT>")
      assert(lefts(read(d)).map(_.id).sorted == (1 to 7))
      assert(rights(read(d)).map(e => e.k -> e.rid).sorted == Seq("a" -> 1, "b" -> 2))
    }
  }

  test("what can't be read is refused by name") {
    withDirectory { d =>
      three(d)
      assert(refusal(spark.read.format("tailrace-state").load())._1 == "TAILRACE_OPTION_INVALID")
      val (condition, message) = refusal(read(d, "operator" -> "3"))
      assert(condition == "TAILRACE_OPTION_INVALID" && message.contains("0 (tailraceLabelJoin)"))
      assert(refusal(read(d, "version" -> "newest"))._1 == "TAILRACE_OPTION_INVALID")
      assert(refusal(read(new File(d, "elsewhere")))._1 == "TAILRACE_CHECKPOINT_NOT_FOUND")
    }
  }
}
