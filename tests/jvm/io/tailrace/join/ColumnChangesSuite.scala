package io.tailrace.join

import java.math.BigDecimal

import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types._
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

final class ColumnChangesSuite extends AnyFunSuite {

  private def changed(from: StructType, to: StructType, values: Any*): Row = {
    val row = CatalystTypeConverters.convertToCatalyst(Row(values: _*)).asInstanceOf[InternalRow]
    val stored: UnsafeRow = UnsafeProjection.create(from)(row).copy()
    val now = UnsafeProjection.create(ColumnChanges.expressions(from, to))(stored)
    CatalystTypeConverters.convertToScala(now, to).asInstanceOf[Row]
  }

  private def told(from: String, to: String): ColumnChanges.Told =
    ColumnChanges.tell("left", StructType.fromDDL(from), StructType.fromDDL(to))

  private def check(from: String, to: String)(values: Any*)(expected: Any*): Assertion = {
    assert(told(from, to).refused.isEmpty)
    assert(changed(StructType.fromDDL(from), StructType.fromDDL(to), values: _*) == Row(expected: _*))
  }

  test("columns are added, dropped and reordered by their names") {
    check("a INT, b STRING, c STRING", "c STRING, d DATE, a INT")(1, "two", "three")("three", null, 1)
    check("a INT", "A INT, b STRING")(1)(1, null)
    assert(
      told("a INT, b STRING", "b STRING, c INT").told ==
        Seq("left column `c` is null", "left column `a` is left out")
    )
  }

  test("names that differ only in case are told apart where both are there") {
    check("a INT, A INT", "A INT, a INT")(1, 2)(2, 1)
    check("a INT", "a INT, A INT")(1)(1, null)
  }

  test("of columns with one name, the first is the first") {
    val two = new StructType().add("a", IntegerType).add("a", StringType)
    assert(changed(two, two.add("b", IntegerType), 1, "x") == Row(1, "x", null))
  }

  test("numbers become wider ones") {
    check("a TINYINT, b SMALLINT, c INT", "a SMALLINT, b INT, c BIGINT")(1.toByte, -2.toShort, 3)(
      1.toShort,
      -2,
      3L
    )
    check("a FLOAT, b INT, c SMALLINT", "a DOUBLE, b DOUBLE, c DOUBLE")(0.5f, 7, -1.toShort)(0.5, 7.0, -1.0)
    check("a DECIMAL(5,2), b DECIMAL(18,0), c INT", "a DECIMAL(8,3), b DECIMAL(38,2), c DECIMAL(12,2)")(
      new BigDecimal("1.25"),
      new BigDecimal("-7"),
      3
    )(new BigDecimal("1.250"), new BigDecimal("-7.00"), new BigDecimal("3.00"))
    check("a INT, b DECIMAL(5,2)", "a BIGINT, b DECIMAL(20,4)")(null, null)(null, null)
    assert(told("a INT", "a BIGINT").told == Seq("left column `a` becomes BIGINT"))
  }

  test("texts lose their bounds, or get wider ones") {
    def field(of: DataType) = new StructType().add("a", of)
    Seq(VarcharType(5) -> VarcharType(9), VarcharType(5) -> StringType, CharType(3) -> VarcharType(3))
      .foreach { case (from, to) =>
        assert(ColumnChanges.tell("left", field(from), field(to)).refused.isEmpty)
      }
    Seq(VarcharType(5) -> VarcharType(4), StringType -> VarcharType(9), VarcharType(3) -> CharType(5))
      .foreach { case (from, to) =>
        assert(ColumnChanges.tell("left", field(from), field(to)).refused.size == 1)
      }
  }

  test("fields, elements and values change as columns do") {
    check("s STRUCT<a: INT, b: STRING>", "s STRUCT<b: STRING, c: DATE, a: BIGINT>")(Row(1, "x"))(
      Row("x", null, 1L)
    )
    check("s STRUCT<a: INT>, n INT", "n INT, s STRUCT<a: INT, b: INT>")(null, 1)(1, null)
    check("l ARRAY<STRUCT<a: INT>>", "l ARRAY<STRUCT<a: BIGINT, b: STRING>>")(Seq(Row(1), null, Row(2)))(
      Seq(Row(1L, null), null, Row(2L, null))
    )
    check("l ARRAY<ARRAY<INT>>", "l ARRAY<ARRAY<BIGINT>>")(Seq(Seq(1, null), Nil))(Seq(Seq(1L, null), Nil))
    check("m MAP<STRING, INT>", "m MAP<STRING, BIGINT>")(Map("a" -> 1))(Map("a" -> 1L))
  }

  test("a type that lacks values of the old one is refused by name") {
    Seq(
      "BIGINT" -> "INT",
      "STRING" -> "INT",
      "INT" -> "STRING",
      "DOUBLE" -> "FLOAT",
      "BIGINT" -> "DOUBLE",
      "DECIMAL(8,3)" -> "DECIMAL(8,2)",
      "DECIMAL(8,3)" -> "DECIMAL(8,4)",
      "INT" -> "DECIMAL(9,0)",
      "TIMESTAMP" -> "TIMESTAMP_NTZ",
      "DATE" -> "TIMESTAMP",
      "STRUCT<a: BIGINT>" -> "STRUCT<a: INT>",
      "ARRAY<BIGINT>" -> "ARRAY<INT>",
      "MAP<INT, INT>" -> "MAP<BIGINT, INT>",
      "ARRAY<INT>" -> "INT"
    ).foreach { case (from, to) =>
      val refused = told(s"k INT, a $from", s"a $to, k INT").refused
      val types = Seq(from, to).map(DataType.fromDDL(_).sql)
      assert(
        refused == Seq(
          s"left column `a` was ${types.head} and is now ${types.last}, which doesn't have all of its values"
        )
      )
    }
  }

  test("of rows that are several starts old, a column that came again as another one is null") {
    val row = changed(StructType.fromDDL("k INT, a INT"), StructType.fromDDL("k INT, a STRING"), 1, 2)
    assert(row == Row(1, null))
  }

  private def old(from: String, to: String)(values: Any*)(expected: Any*): Assertion =
    assert(changed(StructType.fromDDL(from), StructType.fromDDL(to), values: _*) == Row(expected: _*))

  test("a field that came again as another one is null, and everything around it keeps its value") {
    old("d STRUCT<p: STRING, q: BIGINT>", "d STRUCT<q: BIGINT, p: INT>")(Row("x", 7L))(Row(7L, null))
    old("d STRUCT<p: BIGINT, q: INT>", "d STRUCT<p: INT, q: BIGINT>")(Row(1L, 7))(Row(null, 7L))
    old("l ARRAY<STRUCT<p: STRING, q: INT>>", "l ARRAY<STRUCT<p: INT, q: INT>>")(Seq(Row("x", 1), null))(
      Seq(Row(null, 1), null)
    )
    old("m MAP<STRING, STRUCT<p: STRING, q: INT>>", "m MAP<STRING, STRUCT<q: INT, p: DATE>>")(
      Map("k" -> Row("x", 1))
    )(Map("k" -> Row(1, null)))
    old("s STRUCT<i: STRUCT<p: INT, l: ARRAY<STRING>>>", "s STRUCT<i: STRUCT<p: INT, l: ARRAY<INT>>>")(
      Row(Row(1, Seq("x")))
    )(Row(Row(1, null)))
  }

  test("a warning names what is lost, at any depth") {
    assert(
      told(
        "d STRUCT<p: STRING, l: ARRAY<STRUCT<q: BIGINT>>>",
        "d STRUCT<p: INT, l: ARRAY<STRUCT<q: INT>>>"
      ).lost ==
        Seq(
          "left column `d.p` is null in those that have it as STRING",
          "left column `d.l.q` is null in those that have it as BIGINT"
        )
    )
    assert(told("d STRUCT<p: INT>", "d STRUCT<p: BIGINT, q: INT>").lost.isEmpty)
  }

  test("any two types of random fields: a value is kept by the names of its fields, or null alone") {
    val random = new Random(7)
    (1 to 120).foreach { _ =>
      val (from, to) = (RandomShapes.struct(random, 3), RandomShapes.struct(random, 3))
      val row = RandomShapes.value(from, random).asInstanceOf[Row]
      val expected = RandomShapes.projected(row, from, to)
      assert(changed(from, to, row.toSeq: _*) == expected, s"of ${from.sql} as ${to.sql}: $row")
    }
  }
}

/** Types with few names, so that two of them have fields in common, and values of them. */
private object RandomShapes {
  private val leaves = Seq(IntegerType, LongType, StringType, DoubleType)
  private val wider = Set[(DataType, DataType)](IntegerType -> LongType, IntegerType -> DoubleType)

  def struct(random: Random, depth: Int): StructType = {
    val names = random.shuffle(Seq("p", "q", "r", "s")).take(1 + random.nextInt(4))
    StructType(names.map(StructField(_, any(random, depth - 1))))
  }

  private def any(random: Random, depth: Int): DataType = random.nextInt(if (depth > 0) 5 else 2) match {
    case 0 | 1 => leaves(random.nextInt(leaves.size))
    case 2 => struct(random, depth)
    case 3 => ArrayType(any(random, depth - 1))
    case _ => MapType(StringType, any(random, depth - 1))
  }

  def value(of: DataType, random: Random): Any = of match {
    case StructType(fields) => Row(fields.map(field => value(field.dataType, random)).toSeq: _*)
    case _ if random.nextInt(6) == 0 => null
    case IntegerType => random.nextInt(100)
    case LongType => random.nextInt(100).toLong
    case DoubleType => random.nextInt(100) / 4.0
    case ArrayType(element, _) => Seq.fill(random.nextInt(3))(value(element, random))
    case MapType(_, item, _) => Map("a" -> value(item, random), "b" -> value(item, random))
    case _ => s"s${random.nextInt(100)}"
  }

  private def fits(from: DataType, to: DataType): Boolean = (from, to) match {
    case (_: StructType, _: StructType) => true
    case (ArrayType(old, _), ArrayType(now, _)) => fits(old, now)
    case (MapType(_, old, _), MapType(_, now, _)) => fits(old, now)
    case _ => from == to || wider(from -> to)
  }

  def projected(of: Any, from: DataType, to: DataType): Any = (of, from, to) match {
    case _ if of == null || !fits(from, to) => null
    case (row: Row, old: StructType, now: StructType) =>
      Row(now.map { field =>
        val was = old.fieldNames.indexOf(field.name)
        if (was < 0) null else projected(row(was), old(was).dataType, field.dataType)
      }: _*)
    case (elements: Seq[_], ArrayType(old, _), ArrayType(now, _)) => elements.map(projected(_, old, now))
    case (items: Map[_, _], MapType(_, old, _), MapType(_, now, _)) =>
      items.map { case (key, item) => key -> projected(item, old, now) }
    case (n: Int, _, LongType) => n.toLong
    case (n: Int, _, DoubleType) => n.toDouble
    case _ => of
  }
}
