package io.tailrace.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.common.TailraceAnalysisException
import io.tailrace.label.JoinOptions
import io.tailrace.testkit.StreamHarness.options
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Emitted, Engaged, Served, SparkSuite, StreamHarness}

class TailraceSuite extends SparkSuite {
  import spark.implicits._

  /** Joins each row with the rows of its key in the ten seconds after it. */
  private def withItself(frame: DataFrame): DataFrame =
    Tailrace.join(frame, frame, Seq("k" -> "k"), JoinOptions("t", "t", after = "10 seconds"))

  private def ids(rows: Seq[Row]): Map[Int, Seq[Int]] = rows.map { r =>
    r.getAs[Int]("id") -> r.getSeq[Row](r.fieldIndex("labels")).map(_.getAs[Int]("id")).toSeq
  }.toMap

  private val rows = Seq(Served("k", seconds(1), 1), Served("k", seconds(6), 2), Served("k", seconds(12), 3))
  private val joined = Map(1 -> Seq(1, 2), 2 -> Seq(2, 3), 3 -> Seq(3))

  test("a stream with itself") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)((l, _) => withItself(l.withWatermark("t", "0 seconds"))).start()
      h.rows(rows.take(1), Nil)
      h.rows(rows.drop(1), Nil)
      h.restart()
      h.rows(Seq(Served("end", seconds(90), 9)), Nil)
      assert(ids(h.allRows) == joined && h.allRows.size == 3)
    }
  }

  test("a batch DataFrame with itself, and with a DataFrame made of it") {
    val frame = rows.toDF()
    assert(ids(withItself(frame).collect().toSeq) == joined)
    val made = frame.select(col("k"), col("t").as("t2"), col("id"))
    val out = Tailrace.join(frame, made, Seq("k" -> "k"), JoinOptions("t", "t2", after = "10 seconds"))
    assert(ids(out.collect().toSeq) == joined)
  }

  test("the first times that there are match by the window, too") {
    def at(time: String, id: String) =
      Seq(Long.MinValue -> 1, Long.MinValue + 1 -> 2)
        .toDF("us", id)
        .selectExpr("'k' AS k", s"timestamp_micros(us) AS $time", id)
    val window = JoinOptions("t", "t2", after = "20 seconds", before = "5 seconds")
    Seq("left" -> "explode(labels.other)", "inner" -> "other").foreach { case (how, other) =>
      val out = Tailrace.join(at("t", "id"), at("t2", "other"), Seq("k" -> "k"), window.copy(how = how))
      val pairs = out.selectExpr("id", s"$other AS other").as[(Int, Int)].collect().toSet
      assert(pairs == Set(1 -> 1, 1 -> 2, 2 -> 1, 2 -> 2), how)
    }
  }

  test("a misspelt setting is refused by each call") {
    withConf("spark.tailrace.state.batchBuferBytes" -> "16m") {
      val error = intercept[TailraceAnalysisException](withItself(rows.toDF()))
      assert(error.getCondition == "TAILRACE_CONF_UNKNOWN")
      assert(error.getMessageParameters.get("nearest") == "spark.tailrace.state.batchBufferBytes")
    }
  }

  test("the same column as key and time") {
    val out = Tailrace.join(
      rows.toDF(),
      rows.toDF().withColumnRenamed("id", "rid").drop("k"),
      Seq("t" -> "t"),
      JoinOptions("t", "t", after = "10 seconds")
    )
    assert(
      out.collect().map(Emitted.of).map(e => e.id.get -> e.labels).toMap == Map(
        1 -> Seq(1),
        2 -> Seq(2),
        3 -> Seq(3)
      )
    )
  }

  test("timestamps without a time zone, and a time among the keys") {
    val out = Tailrace.join(
      rows.toDF().withColumn("t", col("t").cast("timestamp_ntz")),
      rows.toDF().select(col("k"), col("t").cast("timestamp_ntz").as("rt")),
      Seq("k" -> "k"),
      options("10 seconds")
    )
    assert(out.selectExpr("id", "size(labels)").as[(Int, Int)].collect().toMap == Map(1 -> 2, 2 -> 2, 3 -> 1))
    val keyOnly = Tailrace.join(
      rows.toDF(),
      rows.toDF().select(col("k"), col("t"), lit(1).as("one")),
      Seq("k" -> "k", "t" -> "t"),
      JoinOptions("t", "t", after = "10 seconds")
    )
    assert(keyOnly.selectExpr("size(labels)").as[Int].collect().toSeq == Seq(1, 1, 1))
  }

  test("Python's entry gives the same") {
    val left: DataFrame = rows.toDF()
    val right: DataFrame = rows.map(r => Engaged(r.k, r.t, r.id)).toDF()
    val named = """"left": {"frame": 0}, "right": {"frame": 1}, "on": [["k", "k"]], "left_time": "t",
      "right_time": "rt", "after": 10000000, "before": "0 seconds", "how": "left", "into": "labels", "match": "last",
      "on_late": "drop", "emit": "all", "release": "closed", "one_to_one": false, "orphans": false, "on_stall": "pause" """
    def join(more: String*) = PythonApi
      .call(spark, "join", (named +: more).mkString("{", ", ", "}"), List(left, right).asJava, Nil.asJava)
      .asInstanceOf[DataFrame]
    assert(
      join().collect().map(Emitted.of).map(e => e.id.get -> e.labels).toMap == Map(
        1 -> Seq(2),
        2 -> Seq(3),
        3 -> Seq(3)
      )
    )
    assert(join(""""max_matches": 1""").columns.last == "labels_truncated")
    checkRefused(
      "TAILRACE_OPTION_INVALID",
      "call" -> "tailrace.join",
      "argument" -> "max_matches",
      "value" -> "many",
      "allowed" -> s"a whole number of at most ${Int.MaxValue}"
    )(join(""""max_matches": "many""""))
    checkRefused("TAILRACE_CONNECT_CALL_UNKNOWN", "call" -> "tailrace.join with `fuzzy`")(
      join(""""fuzzy": true""")
    )
    assert(PythonApi.versions().keySet.asScala == Set("tailrace", "builtForSpark", "spark", "scala", "java"))
  }
}
