package io.tailrace.plan

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.testkit.{Campaign, Event, EventStreams, SlowSuite, SparkSuite}
import io.tailrace.watermark.WatermarkOptions

/** Each operator's result on both sides of Spark's joins, set operations and subqueries. Spark has to give
  * new ids to the columns of one side, also to those that a node of ours adds.
  */
class SelfJoinSuite extends SparkSuite with SlowSuite {
  import Event._
  import SelfJoinSuite._
  import spark.implicits._

  private val rows = (0 until 4).flatMap { i =>
    Seq(at("a", i * 10.0, i), at("b", i * 10.0 + 1, 10 + i), at("a", i * 10.0 + 2, 20 + i, "click"))
  }
  private lazy val events = rows.toDF()
  private lazy val edges = Seq(("a", "b"), ("b", "c")).toDF("k", "parent")

  private val window = JoinOptions(leftTime = "t", rightTime = "r_t", after = "10 seconds")

  /** Every operator on batch DataFrames, by name, with the columns that it adds. */
  private lazy val operators: Seq[(String, DataFrame => DataFrame)] = Seq(
    "join" -> (f => Tailrace.join(f, renamed(f), Seq("k" -> "r_k"), window.copy(maxMatches = Some(2)))),
    "join, inner" -> (f =>
      Tailrace.join(f, renamed(f), Seq("k" -> "r_k"), window.copy(how = "inner", onLate = "mark"))
    ),
    "join of one frame" -> (f => {
      val once = Tailrace.join(f, renamed(f), Seq("k" -> "r_k"), window)
      Tailrace.join(
        once,
        once.toDF("r_k", "r_t", "r_id", "r_kind", "l"),
        Seq("k" -> "r_k"),
        window.copy(into = "again")
      )
    }),
    "filter_replays" -> (f => Tailrace.filterReplays(withOrigin(f), Marking)),
    "accurate_watermark" -> (f =>
      Tailrace.accurateWatermark(
        f,
        "t",
        "kind",
        WatermarkOptions(onFuture = "mark", futureLimit = Some("1 day"))
      )
    ),
    "stamp_watermark" -> (f => Tailrace.stampWatermark(f, "stamp")),
    "recursively" -> (f =>
      Tailrace.recursively(
        f.select("k", "id"),
        RecursionOptions(depthColumn = Some("depth"), pathColumns = Seq("k"))
      ) { u =>
        u.join(edges, "k").select(col("parent").as("k"), col("id"))
      }
    )
  )

  private def bag(frame: DataFrame): Seq[String] = frame.collect().map(_.json).sorted.toSeq

  /** Compares with a DataFrame of the same rows without our nodes. */
  private def check(result: DataFrame, plain: DataFrame)(query: DataFrame => DataFrame): Unit = {
    val found = bag(query(result))
    assert(found == bag(query(plain)) && found.nonEmpty)
  }

  private val quick = Seq(
    "spark.sql.shuffle.partitions" -> 1,
    "spark.sql.adaptive.enabled" -> false
  )

  operators.foreach { case (name, operator) =>
    val tags = if (name == "join of one frame" || name == "recursively") Nil else Seq(Campaign)
    test(
      s"$name: joined with itself by name, by alias, crossed, in set operations and subqueries",
      tags: _*
    ) {
      withConf(quick: _*)(checkAll(operator(events)))
    }
  }

  private def checkAll(result: DataFrame): Unit = {
    val plain = spark.createDataFrame(result.collect().toSeq.asJava, result.schema)
    def checked(query: DataFrame => DataFrame): Unit = check(result, plain)(query)
    checked(j => j.join(j, "id"))
    checked(j => j.as("x").join(j.as("y"), expr("x.id = y.id")).select("x.*", "y.k"))
    checked(j => j.crossJoin(j.limit(1)))
    checked(j => j.intersect(j))
    checked(j => j.exceptAll(j.where("id > 2")))
    checked(j => j.union(j.where("id > 2")).join(j, "id"))
    checked { j =>
      j.createOrReplaceTempView("result")
      spark.sql("SELECT * FROM result WHERE id IN (SELECT max(id) FROM result)")
    }
    checked { j =>
      j.createOrReplaceTempView("result")
      spark.sql("WITH c AS (SELECT * FROM result) SELECT x.*, y.id AS other FROM c x JOIN c y ON x.k = y.k")
    }
    checked { j =>
      j.createOrReplaceTempView("result")
      spark.sql("SELECT r.*, (SELECT count(*) FROM result s WHERE s.k = r.k) AS n FROM result r")
    }
    checked { j =>
      val kept = j.cache()
      try kept.join(j, "id").localCheckpoint()
      finally kept.unpersist(blocking = true): Unit
    }
  }

  private def shown(rows: Seq[Row]): Seq[String] = rows.map(_.json).filterNot(_.contains("end-")).sorted

  /** Joins the result of an operator on a stream with itself, by Spark's join. */
  private def streamed(operator: DataFrame => DataFrame): Unit =
    withConf(quick: _*) {
      withDirectory { d =>
        val query = (f: DataFrame) => {
          val j = operator(f)
          j.as("x").join(j.as("y"), expr("x.id = y.id AND x.k = y.k")).selectExpr("x.*", "y.kind AS other")
        }
        val h = new EventStreams(spark, d)((l, _) => query(l)).start()
        val ends = Seq(end(1), end(2, "click"))
        rows.grouped(6).foreach(h.add(_, Nil))
        h.add(ends, Nil)
        val expected = query((rows ++ ends).toDF()).collect().toSeq
        assert(shown(h.all) == shown(expected) && shown(h.all).nonEmpty)
        assert(h.dropped == 0)
      }
    }

  private def marked(f: DataFrame): DataFrame = f.withWatermark("t", "0 seconds")

  test("a stream of groups, joined with itself by Spark") {
    streamed(f =>
      Tailrace.join(marked(f), renamed(marked(f)), Seq("k" -> "r_k"), window.copy(maxMatches = Some(2)))
    )
  }

  // Spark's join takes one event time a side.
  test("a stream of pairs, joined with itself by Spark") {
    val inner = window.copy(how = "inner", onLate = "mark")
    streamed(f => Tailrace.join(marked(f), renamed(marked(f)), Seq("k" -> "r_k"), inner).drop("r_t"))
  }

  test("a stream with an accurate watermark, joined with itself by Spark") {
    streamed(f =>
      Tailrace.accurateWatermark(
        f,
        "t",
        "kind",
        WatermarkOptions(onFuture = "mark", futureLimit = Some("100000 days"))
      )
    )
  }

  test("a stream of recursion's results, joined with itself by Spark") {
    streamed { f =>
      val deep = Tailrace.recursively(f.select("k", "id"), RecursionOptions(depthColumn = Some("depth"))) {
        u =>
          u.join(edges, "k").select(col("parent").as("k"), col("id"))
      }
      deep.withColumn("kind", lit("x"))
    }
  }
}

object SelfJoinSuite {
  private val Marking = ReplayOptions(
    metadata = Seq("pid", "part", "offset"),
    order = Seq("part", "offset"),
    onReplay = "mark"
  )

  private def renamed(frame: DataFrame): DataFrame =
    frame.toDF(frame.columns.map(c => s"r_$c").toIndexedSeq: _*)

  private def withOrigin(frame: DataFrame): DataFrame =
    frame.select(col("*"), lit(1L).as("pid"), lit(0).as("part"), col("id").cast("bigint").as("offset"))
}
