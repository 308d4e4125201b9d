package io.tailrace.label

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.MemoryStream

import io.tailrace.api.Tailrace
import io.tailrace.plan.Columns
import io.tailrace.testkit.StreamHarness.options
import io.tailrace.testkit.{Engaged, Served, SparkSuite, Times}

/** The call refuses invalid input. Most of it is the same for streams and for batch DataFrames. */
class JoinResolutionSuite extends SparkSuite {
  import spark.implicits._

  private lazy val left = Seq.empty[Served].toDF()
  private lazy val right = Seq.empty[Engaged].toDF()
  private lazy val leftStream = MemoryStream[Served](spark).toDF()
  private lazy val rightStream = MemoryStream[Engaged](spark).toDF()
  private val o = options("1 second")

  private def refused(condition: String, parameters: (String, String)*)(
      l: => DataFrame,
      r: => DataFrame,
      on: Seq[(String, String)] = Seq("k" -> "k"),
      options: JoinOptions = o
  ): Unit = checkRefused(condition, parameters: _*)(Tailrace.join(l, r, on, options))

  test("a side without a watermark on its time column is refused") {
    def missing(side: String, column: String, other: String) =
      Seq("side" -> side, "column" -> column, "other" -> other, "delay" -> "10 minutes")
    val (l, r) = (leftStream.withWatermark("t", "1 second"), rightStream.withWatermark("rt", "1 second"))
    refused("TAILRACE_JOIN_WATERMARK_MISSING", missing("left", "t", ""): _*)(leftStream, r)
    refused("TAILRACE_JOIN_WATERMARK_MISSING", missing("right", "rt", ""): _*)(l, rightStream)
    refused("TAILRACE_JOIN_WATERMARK_MISSING", missing("left", "t2", " (its watermark is on `t`)"): _*)(
      l.withColumn("t2", expr("t + interval 1 hour")),
      r,
      options = o.copy(leftTime = "t2")
    )
  }

  private def of(side: String): Seq[(String, String)] =
    Seq("call" -> "tailrace.join", "frame" -> s"the $side DataFrame")

  private def wrongTime(side: String, column: String, dataType: String): Seq[(String, String)] = of(side) ++
    Seq("argument" -> s"${side}_time", "column" -> column, "type" -> dataType, "expected" -> "TIMESTAMP")

  private def duration(argument: String, value: String): Seq[(String, String)] = Seq(
    "call" -> "tailrace.join",
    "argument" -> argument,
    "value" -> value,
    "allowed" -> "a duration of zero or more, such as 30 minutes; months and years have no fixed length"
  )

  test("a stream joined with a batch DataFrame is refused") {
    val condition = "TAILRACE_JOIN_MIXED_BATCH_AND_STREAM"
    refused(condition, "stream" -> "left", "batch" -> "right")(
      leftStream.withWatermark("t", "1 second"),
      right
    )
    refused(condition, "stream" -> "right", "batch" -> "left")(
      left,
      rightStream.withWatermark("rt", "1 second")
    )
  }

  test("a column that doesn't exist is refused") {
    def missing(side: String, argument: String, columns: String) =
      of(side) ++ Seq("argument" -> argument, "column" -> "no", "columns" -> columns)
    val condition = "TAILRACE_COLUMN_NOT_FOUND"
    refused(condition, missing("left", "on", "k, t, id"): _*)(left, right, Seq("no" -> "k"))
    refused(condition, missing("right", "on", "k, rt, rid"): _*)(left, right, Seq("k" -> "no"))
    refused(condition, missing("left", "left_time", "k, t, id"): _*)(
      left,
      right,
      options = o.copy(leftTime = "no")
    )
    refused(condition, missing("right", "right_time", "k, rt, rid"): _*)(
      left,
      right,
      options = o.copy(rightTime = "no")
    )
  }

  test("a name that two columns have is refused") {
    refused("TAILRACE_COLUMN_AMBIGUOUS", of("left") ++ Seq("argument" -> "on", "column" -> "k"): _*)(
      left.select(col("*"), lit("x").as("K")),
      right
    )
    refused(
      "TAILRACE_COLUMN_AMBIGUOUS",
      of("right") ++ Seq("argument" -> "right_time", "column" -> "rt"): _*
    )(
      left,
      right.select(col("*"), col("rt"))
    )
    withConf("spark.sql.caseSensitive" -> true) {
      Tailrace.join(left.select(col("*"), lit("x").as("K")), right, Seq("k" -> "k"), o)
    }
  }

  test("names of columns are found by the session's rule for case") {
    assert(
      Tailrace.join(left, right, Seq("K" -> "k"), o.copy(leftTime = "T")).columns.toSeq == Seq(
        "k",
        "t",
        "id",
        "labels"
      )
    )
  }

  test("a join without keys is refused") {
    refused("TAILRACE_JOIN_KEYS_MISSING")(left, right, Nil)
  }

  test("key types") {
    refused(
      "TAILRACE_JOIN_KEY_TYPES_DIFFER",
      "left" -> "id",
      "leftType" -> "INT",
      "right" -> "rid",
      "rightType" -> "DOUBLE"
    )(left, right.withColumn("rid", col("rid").cast("double")), Seq("id" -> "rid"))
    val map = map_from_arrays(array(lit("x")), array(lit(1)))
    refused("TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED", "column" -> "m", "type" -> "MAP<STRING, INT>")(
      left.withColumn("m", map),
      right.withColumn("m", map),
      Seq("m" -> "m")
    )
    refused(
      "TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED",
      "column" -> "m",
      "type" -> "STRUCT<x: ARRAY<MAP<STRING, INT>> NOT NULL>"
    )(
      left.withColumn("m", struct(array(map).as("x"))),
      right.withColumn("m", struct(array(map).as("x"))),
      Seq("m" -> "m")
    )
    refused("TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED", "column" -> "m", "type" -> "STRUCT<x: VOID>")(
      left.withColumn("m", struct(lit(null).as("x"))),
      right.withColumn("m", struct(lit(null).as("x"))),
      Seq("m" -> "m")
    )
    refused("TAILRACE_JOIN_KEY_COLLATED", "column" -> "c", "type" -> "STRING COLLATE UNICODE_CI")(
      left.withColumn("c", expr("k collate UNICODE_CI")),
      right.withColumn("c", expr("k collate UNICODE_CI")),
      Seq("c" -> "c")
    )
  }

  test("numeric keys of two types are compared in the wider type, and left columns keep their types") {
    val l = Seq(Served("k", Times.seconds(1), 7), Served("k", Times.seconds(1), 8)).toDF()
    val r = Seq(Engaged("k", Times.seconds(2), 7)).toDF()
    def matches(left: String, right: String, options: JoinOptions = o): Seq[(Any, Int)] =
      Tailrace
        .join(
          l.withColumn("id", col("id").cast(left)),
          r.withColumn("rid", col("rid").cast(right)),
          Seq("id" -> "rid"),
          options
        )
        .selectExpr("id", "size(labels)")
        .collect()
        .map(row => row.get(0) -> row.getInt(1))
        .toSeq
        .sortBy(_._1.toString)
    assert(matches("int", "bigint") == Seq(7 -> 1, 8 -> 0))
    assert(matches("bigint", "smallint") == Seq(7L -> 1, 8L -> 0))
    assert(matches("float", "double") == Seq(7f -> 1, 8f -> 0))
    assert(matches("tinyint", "decimal(10,2)") == Seq(7.toByte -> 1, 8.toByte -> 0))
    def decimal(n: String) = new java.math.BigDecimal(n)
    assert(matches("decimal(5,1)", "bigint") == Seq(decimal("7.0") -> 1, decimal("8.0") -> 0))
    // The key of a late right row must fit into the column.
    assert(matches("int", "bigint", o.copy(onLate = "mark")) == Seq(7L -> 1, 8L -> 0))
    refused(
      "TAILRACE_JOIN_KEY_TYPES_DIFFER",
      "left" -> "id",
      "leftType" -> "DECIMAL(38,30)",
      "right" -> "rid",
      "rightType" -> "BIGINT"
    )(l.withColumn("id", col("id").cast("decimal(38,30)")), r.withColumn("rid", lit(1L)), Seq("id" -> "rid"))
  }

  test("a field of a struct as a key is refused") {
    refused(
      "TAILRACE_COLUMN_NESTED",
      of("left") ++ Seq("argument" -> "on", "column" -> "st.k", "parent" -> "st", "name" -> "st_k"): _*
    )(left.withColumn("st", struct("k")), right, Seq("st.k" -> "k"))
  }

  test("a right side of keys alone is refused: a label would be empty") {
    refused("TAILRACE_JOIN_LABEL_EMPTY", "into" -> "labels")(
      left,
      right.select("k", "rt"),
      Seq("k" -> "k", "t" -> "rt")
    )
    val pairs =
      Tailrace.join(left, right.select("k", "rt"), Seq("k" -> "k", "t" -> "rt"), o.copy(how = "inner"))
    assert(pairs.columns.toSeq == Seq("k", "t", "id"))
  }

  test("time columns of another type or of two types are refused") {
    // Spark's cast of epoch milliseconds gives a time in the year 57,000.
    val made =
      "TIMESTAMP, made by timestamp_seconds, timestamp_millis or timestamp_micros (a cast reads seconds)"
    refused("TAILRACE_COLUMN_TYPE", wrongTime("left", "id", "INT").init :+ ("expected" -> made): _*)(
      left,
      right,
      options = o.copy(leftTime = "id")
    )
    refused("TAILRACE_COLUMN_TYPE", wrongTime("right", "rt", "DATE"): _*)(
      left,
      right.withColumn("rt", col("rt").cast("date"))
    )
    refused(
      "TAILRACE_JOIN_TIME_TYPES_DIFFER",
      "left" -> "t",
      "leftType" -> "TIMESTAMP",
      "right" -> "rt",
      "rightType" -> "TIMESTAMP_NTZ"
    )(left, right.withColumn("rt", col("rt").cast("timestamp_ntz")))
  }

  test(
    "timestamps without a time zone are accepted in batch DataFrames and refused in streams"
  ) {
    val ntz = (f: DataFrame, time: String) => f.withColumn(time, col(time).cast("timestamp_ntz"))
    assert(Tailrace.join(ntz(left, "t"), ntz(right, "rt"), Seq("k" -> "k"), o).columns.length == 4)
    val marked = rightStream.withWatermark("rt", "1 second")
    refused("TAILRACE_COLUMN_TYPE", wrongTime("left", "t", "TIMESTAMP_NTZ"): _*)(
      ntz(leftStream, "t"),
      ntz(marked, "rt")
    )
  }

  test("an invalid duration is refused by the name of its argument") {
    refused("TAILRACE_OPTION_INVALID", duration("before", "-1 second"): _*)(
      left,
      right,
      options = o.copy(before = "-1 second")
    )
    refused("TAILRACE_OPTION_INVALID", duration("after", "later"): _*)(
      left,
      right,
      options = o.copy(after = "later")
    )
  }

  test("a column that the join adds and a side already has is refused") {
    def exists(column: String, side: String, cure: String) =
      of(side) ++ Seq("column" -> column, "cure" -> cure)
    val condition = "TAILRACE_COLUMN_EXISTS"
    refused(condition, exists("ID", "left", "Choose another name than 'ID' for `into`."): _*)(
      left,
      right,
      options = o.copy(into = "ID")
    )
    refused(
      condition,
      exists("labels_truncated", "left", "Choose another name than 'labels' for `into`."): _*
    )(
      left.withColumn("labels_truncated", lit(1)),
      right,
      options = o.copy(maxMatches = Some(1))
    )
    def renamed(name: String) = Columns.rename(name)
    refused(condition, exists("_mark", "left", renamed("_mark")): _*)(
      left.withColumn("_mark", lit(1)),
      right,
      options = o.copy(onLate = "mark")
    )
    refused(condition, exists("id", "left", renamed("id")): _*)(
      left,
      right.withColumn("id", lit(1)),
      options = o.copy(how = "inner")
    )
    refused(condition, exists("_mark", "right", renamed("_mark")): _*)(
      left,
      right.withColumn("_mark", lit(1)),
      options = o.copy(how = "inner", onLate = "mark")
    )
  }
}
