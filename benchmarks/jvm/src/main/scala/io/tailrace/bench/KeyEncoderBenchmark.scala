package io.tailrace.bench

import java.util.concurrent.TimeUnit

import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.openjdk.jmh.annotations._

import io.tailrace.state.KeyEncoder

/** What does it cost to turn the key columns of one row into ordered bytes, by their types? */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
class KeyEncoderBenchmark {
  import KeyEncoderBenchmark._

  @Param(
    Array(
      "long",
      "long+long",
      "string(8)",
      "string(64)",
      "decimal(18,2)",
      "decimal(38,2)",
      "struct",
      "array(8)"
    )
  )
  var key: String = _

  private var encoder: KeyEncoder = _
  private var rows: Array[UnsafeRow] = _
  private var position = 0

  @Setup
  def prepare(): Unit = {
    val random = new Random(7)
    val types = typesOf(key)
    val schema = StructType(types.zipWithIndex.map { case (t, i) => StructField(s"k$i", t) })
    val toUnsafe = UnsafeProjection.create(schema)
    val toCatalyst = CatalystTypeConverters.createToCatalystConverter(schema)
    rows = Array.fill(Rows) {
      val row = Row.fromSeq(types.map(value(_, random, stringLength(key))))
      toUnsafe(toCatalyst(row).asInstanceOf[InternalRow]).copy()
    }
    encoder = new KeyEncoder(types.indices.toArray, types.toArray)
  }

  @Benchmark
  def encode(): Int = {
    position = (position + 1) & (Rows - 1)
    encoder.encode(rows(position))
  }
}

object KeyEncoderBenchmark {

  /** Few enough to stay in the processor's cache, many enough that it can't learn them; a power of two. */
  private val Rows = 1024

  private def typesOf(key: String): Seq[DataType] = key match {
    case "long" => Seq(LongType)
    case "long+long" => Seq(LongType, LongType)
    case "string(8)" | "string(64)" => Seq(StringType)
    case "decimal(18,2)" => Seq(DecimalType(18, 2))
    case "decimal(38,2)" => Seq(DecimalType(38, 2))
    case "struct" => Seq(new StructType().add("a", LongType).add("b", StringType))
    case "array(8)" => Seq(ArrayType(LongType))
  }

  private def stringLength(key: String): Int = if (key == "string(64)") 64 else 8

  private def value(dataType: DataType, random: Random, length: Int): Any = dataType match {
    case LongType => random.nextLong()
    case StringType => random.alphanumeric.take(length).mkString
    case d: DecimalType => new java.math.BigDecimal(BigInt(d.precision * 3, random).bigInteger, d.scale)
    case s: StructType => Row.fromSeq(s.fields.toSeq.map(f => value(f.dataType, random, length)))
    case ArrayType(element, _) => Seq.fill(8)(value(element, random, length))
    case other => throw new IllegalArgumentException(s"no values of type ${other.sql}")
  }
}
