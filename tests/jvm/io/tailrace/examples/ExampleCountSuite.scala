package io.tailrace.examples

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

final class ExampleCountSuite extends AnyFunSuite {
  private val columns = Seq(
    AttributeReference("late", BooleanType)(),
    AttributeReference("click", ArrayType(IntegerType))(),
    AttributeReference("buy", ArrayType(IntegerType))(),
    AttributeReference("buy_truncated", BooleanType)(),
    AttributeReference("chosen", BooleanType)()
  )
  private val Seq(late, click, buy, buyTruncated, chosen) = columns: @unchecked
  private val names = CountedNames(Seq("click", "buy"), Seq("true"))

  private def array(size: Int): Any =
    if (size < 0) null else new GenericArrayData(Array.tabulate[Any](size)(i => i))

  private def row(isLate: Any, clicks: Int, buys: Int, isCut: Any, isChosen: Any): InternalRow =
    InternalRow(isLate, array(clicks), array(buys), isCut, isChosen)

  private val rows = Seq(
    row(false, 2, 0, false, true),
    row(false, 0, 3, true, false),
    // Before the label's `since`, and conditions that are null: they don't hold.
    row(false, -1, -1, null, null),
    row(null, 5, 5, true, false),
    row(true, 5, 5, true, true)
  )

  private def counted(rows: Iterator[InternalRow]): ExampleCount = {
    val counting = new RowCounting(
      CountedColumns(
        columns,
        isExample = Not(late),
        events = Seq(click, buy),
        truncated = Seq(Literal.FalseLiteral, buyTruncated),
        dropped = Seq(Not(chosen))
      )
    )
    rows.foreach(counting.see)
    counting.count
  }

  test("only examples count for labels; what the sample drops counts for all rows") {
    val click = Row("click", 1L, 2L, 0L)
    val buy = Row("buy", 1L, 3L, 1L)
    val expected = Row(3L, Seq(click, buy), Seq(Row("true", 2L)))
    assert(names.row(counted(rows.iterator)) == expected)
    // Rows in one piece are read there.
    val toUnsafe = UnsafeProjection.create(columns, columns)
    assert(names.row(counted(rows.iterator.map(toUnsafe))) == expected)
    assert(names.row(counted(rows.iterator)).schema == CountedNames.Schema)
  }

  test("of two tasks over one partition, the one that has seen more rows counts; partitions add up") {
    val (some, all) = (counted(rows.iterator.take(2)), counted(rows.iterator))
    assert(some.max(all) == all && all.max(some) == all)
    assert(names.row(some + all).getLong(0) == 5)
    assert(names.row(ExampleCount.none(labels = 2, predicates = 1) + all) == names.row(all))
  }

  test("impressions that the sample leaves out before the join have no labels") {
    val dropped = CountedColumns(columns, Literal.FalseLiteral, Nil, Nil, Seq(Not(chosen)))
    val counting = new RowCounting(dropped)
    rows.foreach(counting.see)
    val told = CountedNames(Nil, Seq("true")).row(counting.count)
    assert(told == Row(Seq(Row("true", 2L))) && told.schema.fieldNames.sameElements(Array("sample")))
  }
}
