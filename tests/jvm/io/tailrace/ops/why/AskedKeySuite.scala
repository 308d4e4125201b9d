package io.tailrace.ops.why

import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceAnalysisException
import io.tailrace.join.JoinCheckpoint
import io.tailrace.ops.inspect.StateColumns
import io.tailrace.state.{KeyDecoder, RowLayout, RowShapes}

final class AskedKeySuite extends AnyFunSuite {
  private def columns(key: (String, DataType)*): StateColumns = StateColumns(
    StructType(key.map { case (name, dataType) => StructField(name, dataType) }),
    new StructType(),
    new StructType(),
    Nil,
    TimestampType,
    RowShapes.One
  )

  private def asked(text: String, join: StateColumns): AskedKey = AskedKey.of(text, Seq(join)).head.get

  private def values(text: String, key: (String, DataType)*): Seq[Any] = {
    val probes = asked(text, columns(key: _*)).probes(7)
    val Seq((_, Seq(probe))) = probes.toSeq: @unchecked
    val types = key.map(_._2).toArray
    new KeyDecoder(types)
      .decodeWhole(RowLayout.keyBytes(probe, StoredRow.Start))
      .toSeq(StructType(columns(key: _*).key))
  }

  private def refused(text: String, key: (String, DataType)*): String =
    intercept[TailraceAnalysisException](values(text, key: _*)).getMessageParameters.get("allowed")

  test("values have the types of the key columns") {
    assert(values("user_id=7,item_id=42", "user_id" -> LongType, "item_id" -> IntegerType) == Seq(7L, 42))
    assert(values("item_id=42, user_id=7", "user_id" -> LongType, "item_id" -> IntegerType) == Seq(7L, 42))
    assert(values("d=2026-01-02", "d" -> DateType) == Seq(20455))
    assert(values("t=2026-01-01T12:00:00Z", "t" -> TimestampType) == Seq(1767268800000000L))
    assert(values("b=true,x=1.5", "b" -> BooleanType, "x" -> DoubleType) == Seq(true, 1.5))
    assert(values("n=1.50", "n" -> DecimalType(10, 2)) == Seq(Decimal(BigDecimal("1.50"), 10, 2)))
  }

  test("texts may have commas, blanks and equals signs") {
    val two = Seq("a" -> StringType, "b" -> StringType)
    assert(values("a=x, y,b=u=v", two: _*).map(_.toString) == Seq("x, y", "u=v"))
    assert(values("a=,b= ", two: _*).map(_.toString) == Seq("", " "))
    assert(values("a=1,c=2,b=3", two: _*).map(_.toString) == Seq("1,c=2", "3"))
  }

  test("a key with other columns, without one, or with a value of another type is refused") {
    val two = Seq("a" -> LongType, "b" -> LongType)
    val names = "a value for each key column: a=...,b=..."
    Seq("", "7", "a=1", "b=1", "a=1,a=2", "a=1,a=2,b=3", "c=1,a=1,b=2").foreach { text =>
      assert(refused(text, two: _*) == names, text)
    }
    assert(refused("a=1,b=x", two: _*) == "a value of the type BIGINT for b; the state's key is a=...,b=...")
    assert(
      refused(
        "n=1.505",
        "n" -> DecimalType(10, 2)
      ) == "a value of the type DECIMAL(10,2) for n; the state's key is n=..."
    )
    val nested = ArrayType(LongType)
    assert(refused("a=1", "a" -> nested) == "a key of single values, and a is ARRAY<BIGINT>")
  }

  test("a hot key has a probe for each part, in the partitions of the parts") {
    val hot = columns("a" -> LongType, JoinCheckpoint.Part -> IntegerType)
    val probes = asked("a=7", hot.copy(parts = Some(16))).probes(4)
    assert(probes.values.map(_.size).sum == 16 && probes.keySet.subsetOf((0 to 3).toSet) && probes.size > 1)
    assert(asked("a=7", hot).probes(4).values.flatten.size == 1)
  }

  test("each of several joins is asked whose key columns are all named") {
    val one = columns("a" -> LongType)
    val two = columns("a" -> LongType, "b" -> LongType)
    def isAsked(text: String) = AskedKey.of(text, Seq(one, two)).map(_.nonEmpty)
    assert(isAsked("a=1") == Seq(true, false))
    assert(isAsked("b=2,a=1") == Seq(true, true))
    Seq("b=2", "a=1,a=2", "a=1,c=3").foreach { text =>
      val refusal = intercept[TailraceAnalysisException](isAsked(text))
      val told = "a value for each key column: a=... or a=...,b=..."
      assert(text == "a=1,c=3" || refusal.getMessageParameters.get("allowed") == told, text)
    }
  }
}
