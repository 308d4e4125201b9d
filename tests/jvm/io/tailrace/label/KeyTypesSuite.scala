package io.tailrace.label

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.api.Tailrace
import io.tailrace.testkit.StreamHarness.options
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Emitted, Engaged, Served, SparkSuite, StreamHarness}

/** Keys of every orderable type match as Spark compares them, in streams and in batch DataFrames. */
class KeyTypesSuite extends SparkSuite {

  /** Makes a key of a number from 0 to 3, by a SQL expression over `n`; equal for equal numbers only. */
  private val types: Seq[(String, String)] = Seq(
    "boolean and int" -> "named_struct('b', n % 2 = 0, 'i', n div 2)",
    "tinyint" -> "cast(n - 2 as tinyint)",
    "smallint" -> "cast(n - 2 as smallint)",
    "int" -> "if(n = 0, -2147483648, n)",
    "bigint" -> "if(n = 0, -9223372036854775807L - 1, cast(n as bigint))",
    "float" -> "if(n = 3, float('nan'), cast(n - 1 as float))",
    "double" -> "if(n = 3, double('-infinity'), n - 1.5d)",
    "decimal(9, 2)" -> "cast(n - 1.25 as decimal(9, 2))",
    "decimal(38, 10)" -> "cast(-123456789012345678901234567.5 as decimal(38, 10)) + cast(n as decimal(38, 10))",
    "string" -> "element_at(array('', 'é', 'a longer key than a prefix', 'a longer key than a prefix!'), n + 1)",
    "binary" -> "element_at(array(x'', x'00', x'0000', x'ff'), n + 1)",
    "date" -> "date_add(date'1969-12-31', n)",
    "timestamp" -> "timestamp_micros(n - 2)",
    "timestamp_ntz" -> "timestamp_ntz'1969-12-31 23:59:59' + make_dt_interval(0, 0, 0, n)",
    "interval year to month" -> "make_ym_interval(0, n - 2)",
    "interval day to second" -> "make_dt_interval(n - 2)",
    "array" -> "element_at(array(array(1), array(1, null), array(null, 1), array()), n + 1)",
    "array of struct" -> "array(named_struct('a', n, 'b', if(n = 1, null, 'x')))",
    "struct of struct and array" ->
      "named_struct('s', named_struct('x', cast(n as string)), 'l', array(array(n), array(null)))",
    "struct of null" -> "named_struct('x', if(n = 0, null, n))"
  )

  private val served = (0 to 3).map(n => Served(n.toString, seconds(10), n)) :+ Served(null, seconds(10), 9)
  private val engaged =
    (0 to 3).map(n => Engaged(n.toString, seconds(11), n)) :+ Engaged(null, seconds(11), 9)

  private def keyed(frame: DataFrame, keys: Column*): DataFrame =
    keys.zipWithIndex.foldLeft(frame.withColumn("n", col("k").cast("int")).drop("k")) { case (f, (key, i)) =>
      f.withColumn(s"key$i", when(col("n").isNotNull, key))
    }

  private def joined(l: DataFrame, r: DataFrame, keys: Seq[Column]): DataFrame = {
    val names = keys.indices.map(i => s"key$i")
    Tailrace
      .join(
        keyed(l, keys: _*).withWatermark("t", "0 seconds"),
        keyed(r, keys: _*).drop("n").withWatermark("rt", "0 seconds"),
        names.map(n => n -> n),
        options("5 seconds").copy(before = "5 seconds")
      )
      .selectExpr("cast(n as string) as k", "id", "labels")
  }

  private val expected = Emitted.sorted(
    (0 to 3).map(n => Emitted(n.toString, Some(n), Seq(n))) :+ Emitted(null, Some(9), Nil)
  )

  private def check(keys: Column*): Unit = {
    import spark.implicits._
    val batch = joined(served.toDF(), engaged.toDF(), keys).collect()
    assert(Emitted.sorted(batch.map(Emitted.of)) == expected)
    ()
  }

  types.foreach { case (name, key) =>
    test(s"key of type $name: batch frames") {
      check(expr(key))
    }
  }

  test("keys of many columns match in batch DataFrames") {
    check(types.map { case (_, key) => expr(key) }: _*)
  }

  test("keys of each of these types match on one stream") {
    // One query per type would take long: the types are columns of one composite key, and of one struct.
    val all = types.map { case (_, key) => expr(key) }
    withDirectory { d =>
      val h =
        new StreamHarness(spark, d)((l, r) => joined(l, r, all.take(10) :+ struct(all.drop(10): _*))).start()
      h.step(served, engaged)
      assert(h.step(Seq(Served("0", seconds(90), 0)), Seq(Engaged("0", seconds(90), 0))).flatten == expected)
    }
  }

  test("minus zero equals zero, and any NaN any other") {
    val other = (c: String) => expr(s"if(n = 0, $c('-0'), if(n = 1, $c('nan'), cast(n as $c)))")
    val one = (c: String) =>
      expr(s"if(n = 0, $c('0'), if(n = 1, sqrt(cast(-1 as $c)), cast(n as $c)))").cast("double")
    import spark.implicits._
    def query(l: DataFrame, r: DataFrame) = Tailrace
      .join(
        keyed(l, one("double"), array(one("double"))).withWatermark("t", "0 seconds"),
        keyed(r, other("double"), array(other("double"))).drop("n").withWatermark("rt", "0 seconds"),
        Seq("key0" -> "key0", "key1" -> "key1"),
        options("5 seconds")
      )
      .selectExpr("cast(n as string) as k", "id", "labels")
    assert(Emitted.sorted(query(served.toDF(), engaged.toDF()).collect().map(Emitted.of)) == expected)
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(query).start()
      h.step(served, engaged)
      assert(h.step(Seq(Served("0", seconds(90), 0)), Seq(Engaged("0", seconds(90), 0))).flatten == expected)
    }
  }
}
