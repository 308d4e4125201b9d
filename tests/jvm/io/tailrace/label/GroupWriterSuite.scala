package io.tailrace.label

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Mark
import io.tailrace.join.JoinColumns
import io.tailrace.state.RowMemory
import io.tailrace.testkit.TestRow

/** The writer's rows, byte for byte, against those that Spark's own projection makes of the same values:
  * Spark compares and groups rows by their bytes.
  */
final class GroupWriterSuite extends AnyFunSuite {
  // No intervals: Spark's projection leaves any bytes in the room of a null one.
  private val types: Seq[DataType] = Seq(
    IntegerType,
    BooleanType,
    LongType,
    DoubleType,
    StringType,
    BinaryType,
    DecimalType(10, 2),
    DecimalType(38, 10),
    ArrayType(StringType),
    new StructType().add("a", StringType).add("b", LongType)
  )

  private def value(random: Random, dataType: DataType): Any =
    if (random.nextInt(4) == 0) null
    else {
      dataType match {
        case IntegerType => random.nextInt()
        case BooleanType => random.nextBoolean()
        case LongType => random.nextLong()
        case DoubleType => random.nextDouble()
        case StringType => UTF8String.fromString(random.alphanumeric.take(random.nextInt(20)).mkString)
        case BinaryType => random.nextBytes(random.nextInt(20))
        case d: DecimalType => Decimal(BigDecimal(random.nextInt(99999)), d.precision, d.scale)
        case ArrayType(element, _) =>
          new GenericArrayData(Array.fill[Any](random.nextInt(4))(value(random, element)))
        case struct: StructType =>
          InternalRow.fromSeq(struct.fields.toSeq.map(f => value(random, f.dataType)))
        case other => throw new IllegalArgumentException(other.sql)
      }
    }

  private def attributes(random: Random, count: Int, prefix: String): Seq[AttributeReference] =
    (0 until count).map(i => AttributeReference(s"$prefix$i", types(random.nextInt(types.size)))())

  /** Spark's projection without code that is generated and compiled for each list of types. */
  private def interpreted(types: Seq[DataType]): UnsafeProjection =
    InterpretedUnsafeProjection.createProjection(types.zipWithIndex.map { case (dataType, i) =>
      BoundReference(i, dataType, nullable = true)
    })

  private def generated(types: Seq[DataType]): UnsafeProjection = UnsafeProjection.create(types.toArray)

  private def check(
      random: Random,
      leftCount: Int,
      rightCount: Int,
      group: OneGroup,
      marksLate: Boolean,
      projection: Seq[DataType] => UnsafeProjection
  ): Unit = {
    val settings = JoinSettings(JoinWindow(0, 10), JoinOutput.Grouped, group, marksLate)
    val key = AttributeReference("k", LongType)()
    val time = AttributeReference("t", LongType)()
    val left = time +: attributes(random, leftCount - 1, "l")
    val payload = attributes(random, rightCount, "r")
    val element = StructType(payload.map(a => StructField(a.name, a.dataType)))
    val added = AttributeReference("labels", ArrayType(element, containsNull = false), nullable = false)() +:
      (group.maxMatches.map(_ => AttributeReference("f", BooleanType, nullable = false)()).toSeq ++
        Option.when(marksLate)(Mark.attribute()))
    val columns = JoinColumns(left, key +: payload, Seq(time), Seq(key), time, key, added)
    val toUnsafe = projection((left ++ added).map(_.dataType))
    val leftToUnsafe = projection(left.map(_.dataType))
    val elementToUnsafe = projection(payload.map(_.dataType))
    val manager = TaskMemory.create(64L << 20)
    val memory = new RowMemory(manager)
    val candidates = new Candidates(memory)
    val writer = group.writer(columns, settings.version, memory)
    try
      (0 until 10).foreach { _ =>
        val leftValues = left.map(a => if (a eq time) 7L else value(random, a.dataType))
        val count = Seq(0, 1, 3, 63, 64, 65, 130)(random.nextInt(7))
        val before = random.nextInt(3)
        val elements =
          Seq.fill(before + count)(InternalRow.fromSeq(payload.map(a => value(random, a.dataType))))
        candidates.clear()
        elements.zipWithIndex.foreach { case (row, i) =>
          val bytes = elementToUnsafe(row).getBytes
          candidates.add(i.toLong, bytes, TestRow.At, bytes.length)
        }
        candidates.settle()
        val kept = group.maxMatches.fold(count)(Math.min(_, count))
        val labels = new GenericArrayData(elements.slice(before, before + kept).toArray[Any])
        val marks =
          group.maxMatches.map(_ => kept < count).toSeq ++ Option.when[Any](marksLate)(null)
        val expected = toUnsafe(InternalRow.fromSeq((leftValues :+ labels) ++ marks))
        val leftRow = leftToUnsafe(InternalRow.fromSeq(leftValues))
        val found = writer.write(leftRow, 7L, Matches(candidates, before, count, count))
        if (found != expected)
          fail(s"$count of ${payload.map(_.dataType.sql)} for ${left.map(_.dataType.sql)}")
        assert(writer.lastSize == kept)
      }
    finally candidates.close()
  }

  Seq(1, 5, 62, 63, 64, 65, 128).foreach { leftCount =>
    test(s"$leftCount left columns") {
      (1 to 20).foreach { seed =>
        val random = new Random(seed * 1000L + leftCount)
        Seq(None -> false, Some(2) -> false, Some(64) -> true).foreach { case (most, marksLate) =>
          val projection: Seq[DataType] => UnsafeProjection = if (seed <= 2) generated else interpreted
          val group = OneGroup(MatchPolicy.All, most)
          check(random, leftCount, 1 + random.nextInt(5), group, marksLate, projection)
        }
      }
    }
  }
}
