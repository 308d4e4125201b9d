package io.tailrace.recursion

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.types._

import io.tailrace.common.ProgressName

/** Counts as they stand in the query's progress. */
object HopReport {

  /** A progress is read by people. */
  private val Named = 100

  private val HopSchema =
    new StructType().add("hop", IntegerType).add("rows", LongType).add("ms", DoubleType)

  val Schema: StructType = new StructType()
    .add("mode", StringType)
    .add("rows", LongType)
    .add("fedBack", LongType)
    .add("deepest", IntegerType)
    .add("stopped", LongType)
    .add("cycles", LongType)
    .add("hops", ArrayType(HopSchema))

  /** What a recursion's counts are called in `observedMetrics`. */
  def name(settings: RecursionSettings): String =
    ProgressName("recursion", settings.name, RecursionOptions.Name)

  def row(mode: RecursionMode, counts: HopCounts): Row = {
    val hops = counts.hops.take(Math.min(Named, counts.deepest)).zipWithIndex.map { case (hop, i) =>
      new GenericRowWithSchema(Array(i + 1, hop.rows, hop.nanos / 1e6), HopSchema)
    }
    new GenericRowWithSchema(
      Array(
        mode.name,
        counts.rows,
        counts.fedBack,
        counts.deepest,
        counts.stopped,
        counts.cycles,
        hops
      ),
      Schema
    )
  }
}
