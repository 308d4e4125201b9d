package io.tailrace.ops.rescale

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.{KeyDecoder, KeyEncoder}
import io.tailrace.testkit.{RowFixture, TestRow}

/** Where rows go, compared with Spark's own shuffle. */
final class RowTargetsSuite extends AnyFunSuite with RowFixture {
  private val types = Seq(LongType, StringType, DoubleType)
  private val encoder = new KeyEncoder(types.indices.toArray, types.toArray)

  private def partition(row: InternalRow, partitions: Int): Int = {
    val columns = types.zipWithIndex.map { case (t, i) => BoundReference(i, t, nullable = true) }
    val number = UnsafeProjection.create(Seq(HashPartitioning(columns, partitions).partitionIdExpression))
    number(row).getInt(0)
  }

  private def row(random: Random): UnsafeRow = {
    val doubles = Seq(0.0, -0.0, Double.NaN, random.nextDouble(), Double.NegativeInfinity)
    val text = random.alphanumeric.take(random.nextInt(20)).mkString
    UnsafeProjection.create(types.toArray[DataType])(
      InternalRow(random.nextLong(), UTF8String.fromString(text), doubles(random.nextInt(doubles.size)))
    )
  }

  test("a row goes where Spark sends later rows of its key") {
    val random = new Random(1)
    for ((before, after) <- Seq(4 -> 16, 16 -> 4, 4 -> 7, 6 -> 4, 1 -> 5, 5 -> 1); _ <- 1 to 50) {
      val key = row(random)
      val from = partition(key, before)
      val targets = new RowTargets(types, from, before, after)
      val rows = newBuffer()
      rows.append(encoder.bytes, encoder.encode(key), 5, 7, key)
      assert(targets.of(rows.base(0), rows.at(0)) == partition(key, after))
      val other = new RowTargets(types, (from + 1) % Math.max(2, before), Math.max(2, before), after)
      if (before > 1)
        assert(intercept[RowTargets.ElsewhereException](other.of(rows.base(0), rows.at(0))).partition == from)
    }
  }

  test("rows without a key are spread over the partitions that get rows of theirs") {
    val rows = bufferOf((0 until 100).map(i => TestRow(Vector.empty, 5, i.toLong, Vector(1.toByte))))
    val targets = new RowTargets(types, 1, 4, 16)
    val found = for (i <- 0 until 100) yield targets.of(rows.base(i), rows.at(i))
    assert(found.toSet == Set(1, 5, 9, 13))
  }

  test("sequence numbers of partitions that come together differ, and keep their order") {
    val batch = 3L << 32
    for ((before, after) <- Seq(4 -> 16, 16 -> 4, 4 -> 7, 6 -> 4)) {
      val all = (0 until before).flatMap { p =>
        val targets = new RowTargets(types, p, before, after)
        val seqs = Seq(0L, 1L, 2L, 1000L).map(n => targets.seq(batch + n).get)
        assert(seqs == seqs.sorted && seqs.forall(_ >>> 32 == 3))
        // Partitions of one residue come together.
        seqs.map(seq => (p % BigInt(before).gcd(after).toInt, seq))
      }
      assert(all.distinct.size == all.size)
    }
    val most = (1L << 32) - 1
    assert(new RowTargets(types, 3, 4, 16).seq(batch + most).contains(batch + most))
    assert(new RowTargets(types, 3, 4, 7).seq(batch + most).isEmpty)
  }

  test("a key of other types is refused") {
    val structs = StructType(Seq("x", "y", "z").map(StructField(_, IntegerType)))
    val encoder = new KeyEncoder(Array(0, 1), Array(structs, IntegerType))
    val length = encoder.encode(InternalRow(InternalRow(1, 2, 3), 4))
    val key = encoder.bytes.take(length)
    assert(new KeyDecoder(Array(structs, IntegerType)).decodeWhole(key).getInt(1) == 4)
    Seq(
      Array[DataType](IntegerType, IntegerType, IntegerType),
      Array[DataType](structs),
      Array[DataType](StringType)
    )
      .foreach(types => intercept[RuntimeException](new KeyDecoder(types).decodeWhole(key)))
  }
}
