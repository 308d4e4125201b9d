package io.tailrace.watermark

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}
import org.apache.spark.sql.tailrace.{MemoryStream, OperatorWords, StreamAccess}

import io.tailrace.testkit.{Logged, SparkSuite}

private object OperatorWordsSuite {
  def counted(host: String, rows: Iterator[Logged], state: GroupState[Long]): (String, Long) = {
    state.update(state.getOption.getOrElse(0L) + rows.size)
    host -> state.get
  }
}

/** What Spark's operators with state do, in words. */
final class OperatorWordsSuite extends SparkSuite {
  import OperatorWordsSuite._
  import spark.implicits._

  private def logs: DataFrame = MemoryStream[Logged](spark).toDF().withWatermark("at", "1 minute")

  private def words(frame: DataFrame, mode: OutputMode = OutputMode.Append): Seq[String] =
    StreamAccess.stateful(frame, mode).map(OperatorWords.of)

  private def minute = window(col("at"), "1 minute")

  test("an aggregation has its functions and its keys") {
    assert(words(logs.groupBy(minute).count()) == Seq("count by window"))
    val several =
      logs.groupBy(minute, col("host")).agg(count("*"), sum("id").as("total"), max("id"), sum("id"))
    assert(words(several) == Seq("count, sum(id), max(id) by window, host"))
    val sessions = logs.groupBy(col("host"), session_window(col("at"), "1 minute")).agg(avg("id"))
    assert(words(sessions) == Seq("avg(id) by host, session_window"))
    assert(words(logs.groupBy().count(), OutputMode.Complete) == Seq("count of all rows"))
    assert(words(logs.groupBy("host", "at").agg(Map.empty[String, String])) == Seq("distinct host, at"))
  }

  test("deduplication, joins, arbitrary state and limits have their keys") {
    assert(words(logs.dropDuplicates("id", "at")) == Seq("drop duplicates of id, at"))
    assert(
      words(logs.dropDuplicatesWithinWatermark("id")) == Seq("drop duplicates of id within the watermark")
    )
    val (clicks, views) = (logs, logs.toDF("rhost", "rat", "rid"))
    val near = expr("at between rat and rat + interval 1 minute")
    assert(words(clicks.join(views, expr("id = rid") && near)) == Seq("Spark's join on id = rid"))
    val outer = clicks.join(views, expr("id = rid and host = rhost") && near, "left_outer")
    assert(words(outer) == Seq("Spark's left outer join on id = rid, host = rhost"))
    assert(words(clicks.join(logs.select("id"), "id")) == Seq("Spark's join on id"))
    val state = logs
      .as[Logged]
      .groupByKey(_.host)
      .mapGroupsWithState[Long, (String, Long)](GroupStateTimeout.NoTimeout)(counted _)
    assert(words(state.toDF(), OutputMode.Update) == Seq("state by value"))
    assert(words(logs.limit(5)) == Seq("limit"))
  }

  test("no value is in the words") {
    val secrets = Seq(
      logs.groupBy(minute, col("host") === "secret").count(),
      logs.groupBy(minute, when(col("host") === "secret", "secret").otherwise(col("host"))).count(),
      logs.groupBy(minute).agg(sum(when(col("host") === "secret", col("id")))),
      logs.groupBy(minute).agg(count("*").as("secret"), max(lit("secret"))),
      logs.select(col("at"), col("host") === "secret").dropDuplicates(),
      logs.where("host = 'secret'").groupBy(minute).count(),
      logs.select(col("at"), lit("secret")).dropDuplicates(),
      logs.groupBy(minute).agg(expr("count(*) filter (where host = 'secret')")),
      logs.join(
        logs.select(concat(lit("secret"), col("host")).as("name")),
        expr("concat('secret', host) = name")
      )
    ).map(words(_))
    assert(secrets.forall(_.nonEmpty) && !secrets.flatten.exists(_.contains("secret")), secrets)
    assert(secrets.head == Seq("count by window, an expression of host"))
    assert(secrets(2) == Seq("sum(an expression of host, id) by window"))
    assert(secrets(4) == Seq("drop duplicates of at, an expression of host"))
  }

  test("words have a limit") {
    val wide =
      logs.select(col("at") +: (0 until 60).map(i => col("id").as(s"column_$i")): _*).dropDuplicates()
    val text = words(wide).head
    assert(text.length == OperatorWords.Longest && text.startsWith("drop duplicates of "))
    assert(text.endsWith("…"))
    val characters = OperatorWords.cut("😀" * 200)
    assert(characters == "😀" * (OperatorWords.Longest - 1) + "…", "no character is cut in two")
    assert(OperatorWords.cut("x" * OperatorWords.Longest) == "x" * OperatorWords.Longest)
  }
}
