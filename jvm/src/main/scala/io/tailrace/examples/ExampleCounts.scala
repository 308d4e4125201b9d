package io.tailrace.examples

import org.apache.spark.sql.functions._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.{Mark, Policy, ProgressName}
import io.tailrace.plan.Columns.named

/** What a micro-batch's examples were, in `observedMetrics` of the query's progress. */
private[tailrace] object ExampleCounts {

  val Schema: StructType = new StructType()
    .add("rows", LongType)
    .add(
      "labels",
      ArrayType(
        new StructType()
          .add("label", StringType)
          .add("matched", LongType)
          .add("events", LongType)
          .add("truncated", LongType)
      )
    )
    .add("sample", ArrayType(new StructType().add("predicate", StringType).add("dropped", LongType)))

  def name(options: ExampleOptions): String =
    ProgressName("examples", ExampleOptions.arguments.name(options.name), ExampleOptions.Name)

  /** Whether a row is a late one that comes out by itself. */
  def isMarked(options: ExampleOptions): Column =
    if (options.onLate == Policy.Mark.name) named(Mark.Column).isNotNull else lit(false)

  /** Counts the examples as they pass.
    *
    * @param dropped for each predicate of the sample, whether it has left the row out
    */
  def add(
      examples: DataFrame,
      options: ExampleOptions,
      labels: Seq[ExampleLabel],
      dropped: Seq[(String, Column)]
  ): DataFrame = {
    val isExample = !isMarked(options)
    val ofLabels = labels.map { label =>
      // Null before the label's `since`.
      val events = when(isExample, greatest(coalesce(size(named(label.name)), lit(0)), lit(0))).otherwise(0)
      val truncated =
        label.maxMatches.fold(lit(0L))(_ => count_if(isExample && named(s"${label.name}_truncated")))
      struct(
        lit(label.name).as("label"),
        count_if(events > 0).as("matched"),
        coalesce(sum(events), lit(0L)).as("events"),
        truncated.as("truncated")
      )
    }
    val ofSample = dropped.map { case (predicate, isDropped) =>
      struct(lit(predicate).as("predicate"), count_if(isDropped).as("dropped"))
    }
    val sample = if (ofSample.isEmpty) typedLit(Seq.empty[(String, Long)]) else array(ofSample: _*)
    examples.observe(
      name(options),
      count_if(isExample).as("rows"),
      array(ofLabels: _*).as("labels"),
      sample.cast(Schema("sample").dataType).as("sample")
    )
  }
}
