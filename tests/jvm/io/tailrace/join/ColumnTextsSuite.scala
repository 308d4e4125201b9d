package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

final class ColumnTextsSuite extends AnyFunSuite {

  test("the types of key columns are read from the checkpoint's text") {
    def read(text: String) = ColumnTexts.read(text).map(_.map(_.dataType))
    assert(read("id BIGINT").contains(Seq(LongType)))
    assert(read("user id BIGINT, item, or not STRING").contains(Seq(LongType, StringType)))
    val structs = StructType(Seq(StructField("a", IntegerType), StructField("b", StringType)))
    val text = "d DECIMAL(10,2), s STRUCT<a: INT, b: STRING>, t TIMESTAMP"
    assert(read(text).contains(Seq(DecimalType(10, 2), structs, TimestampType)))
    val three = StructType(Seq("x", "y", "z").map(StructField(_, IntegerType)))
    assert(read("s STRUCT<x: INT, y: INT, z: INT>, w INT").contains(Seq(three, IntegerType)))
    assert(
      read("a ARRAY<STRUCT<x: INT, y: INT, z: INT>>, w INT").contains(Seq(ArrayType(three), IntegerType))
    )
    assert(read("id").isEmpty && read("id NONSENSE").isEmpty)
  }

  test("names and types come back as they were written") {
    val structs = StructType(Seq(StructField("a", IntegerType), StructField("b, c", StringType)))
    val columns = Seq("id" -> LongType, "a name, of words" -> StringType, "s" -> structs)
    val text = ColumnTexts.write(columns.map { case (name, of) => AttributeReference(name, of)() })
    assert(ColumnTexts.read(text).map(_.map(c => c.name -> c.dataType)).contains(columns))
  }

  test("pairs of keys are put in the order of a checkpoint's texts, whatever their names") {
    def column(name: String, of: DataType) = AttributeReference(name, of)()
    val (user, item) = (column("user", LongType), column("item", StringType))
    val odd = column("user BIGINT, item", StringType)
    val (u, i, o) = (column("u", LongType), column("i", StringType), column("o", StringType))
    val pairs = Seq(user -> u, odd -> o, item -> i)
    pairs.permutations.foreach { order =>
      val (lefts, rights) = (ColumnTexts.write(order.map(_._1)), ColumnTexts.write(order.map(_._2)))
      assert(ColumnTexts.ordered(pairs, lefts, rights).contains(order))
    }
    val text = ColumnTexts.write(_: Seq[AttributeReference])
    assert(ColumnTexts.ordered(pairs.take(1), text(Seq(user, item)), text(Seq(u, i))).isEmpty)
    assert(ColumnTexts.ordered(Seq(user -> u, item -> i), text(Seq(item, user)), text(Seq(u, i))).isEmpty)
  }

  test("a text of many columns is read at once") {
    val columns = (0 until 200).map(i =>
      s"column_$i" -> (if (i % 3 == 0) StructType(Seq(StructField("a", LongType))) else LongType)
    )
    val text = ColumnTexts.write(columns.map { case (name, of) => AttributeReference(name, of)() })
    assert(ColumnTexts.read(text).map(_.map(c => c.name -> c.dataType)).contains(columns))
  }
}
