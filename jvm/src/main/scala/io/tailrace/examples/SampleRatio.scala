package io.tailrace.examples

import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.{OwnNames, TimeSpan}
import io.tailrace.label.NegativeBalance
import io.tailrace.plan.Columns.named

/** The sample of negatives at a ratio to positives.
  *
  * {{{
  *   sample(ratio={"click": 3})      a stream: each partition by what it has emitted before       NegativeBalance
  *                                   a batch: by all rows of the same `over` of event time
  * }}}
  *
  * @param labels   that the definition has
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[examples] final class SampleRatio(
    sample: ExampleSample,
    options: ExampleOptions,
    labels: Seq[ExampleLabel],
    sameName: (String, String) => Boolean
) {
  import ExampleOptions.arguments
  import SampleRatio._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  val balance: NegativeBalance = {
    if (sample.rates.nonEmpty) {
      val reason = "the ratio sets the rate of negatives, and all other examples are emitted"
      throw arguments.conflict("rates", shown(sample.rates), "ratio", reason)
    }
    checkIsOnce()
    val ratios = sample.ratio.map { case (name, ratio) =>
      // NaN is neither.
      if (!(ratio > 0 && ratio < Double.PositiveInfinity))
        throw arguments.invalid(s"the ratio of '$name'", ratio, "a number above 0")
      val allowed = s"names of labels: ${labels.map(label => s"'${label.name}'").mkString(", ")}"
      labels
        .find(label => sameName(label.name, name))
        .getOrElse(throw arguments.invalid("ratio", name, allowed))
        .name -> ratio
    }
    ratios.map(_._1).diff(ratios.map(_._1).distinct).foreach { twice =>
      throw arguments.invalid("ratio", twice, "each label once")
    }
    val start = sample.start.getOrElse(Start)
    if (!(start > 0 && start <= 1)) throw arguments.invalid("start", start, "above 0, and at most 1")
    NegativeBalance(ratios, arguments.duration("over", sample.over.getOrElse(Over), least = LeastOver), start)
  }

  /** Versions of an example are emitted in several micro-batches, each with a rate of its own. */
  private def checkIsOnce(): Unit = {
    val versions = options.amendFor.map("amend_for" -> _.toString) ++
      Option.when(options.horizons.nonEmpty)("horizons" -> options.horizons.mkString(", "))
    versions.foreach { case (argument, value) =>
      val reason = "versions of one example would be decided by several rates"
      throw arguments.conflict(argument, value, "ratio", reason)
    }
  }

  /** In the query's progress. */
  def predicate: String =
    balance.ratios.map { case (label, _) => s"size(${quoteIfNeeded(label)}) = 0" }.mkString(" AND ")

  /** True if a row has none of the labels. Before the `since` of a label, that isn't known. */
  def isNegative: Column = events.map(_ === 0).reduce(_ && _)

  private def events: Seq[Column] = balance.ratios.map { case (label, _) =>
    when(named(label).isNotNull, size(named(label)))
  }

  /** Adds the column [[NegativeBalance.Rate]] to examples of batch DataFrames. Those of streams have it.
    *
    * @param isExample whether a row counts
    */
  def withRates(examples: DataFrame, isExample: Column): DataFrame =
    if (examples.isStreaming) examples
    else {
      checkIsSame(SparkPlans.analyzed(examples))
      val begun = examples.withColumn(Window, windowOf(examples))
      val positives = events.map(count => coalesce(sum((count > 0).cast("long")), lit(0L)))
      val negatives = coalesce(sum(isNegative.cast("long")), lit(0L))
      val wanted = balance.ratios.zip(positives).map { case ((_, ratio), count) =>
        lit(ratio) * greatest(count, lit(1L))
      }
      val most = if (wanted.size == 1) wanted.head else greatest(wanted: _*)
      val counts = begun
        .where(isExample)
        .groupBy(named(Window).as(Counted))
        .agg(least(lit(1.0), most / greatest(negatives, lit(1L))).as(NegativeBalance.Rate))
      begun.join(broadcast(counts), named(Window) <=> named(Counted), "left").drop(Window, Counted)
    }

  /** Examples are computed for the counts, and again for the rows. */
  private def checkIsSame(examples: LogicalPlan): Unit =
    if (examples.exists(!_.deterministic)) {
      val allowed =
        "DataFrames that are the same each time they are read: without rand() or uuid(), or written to a table first"
      throw arguments.invalid("ratio", shown(sample.ratio), allowed)
    }

  /** The number of the `over` of event time that a row is in, from 1970 on. */
  private def windowOf(examples: DataFrame): Column = {
    val time = SparkPlans.analyzed(examples).output.find(a => sameName(a.name, options.time)).get
    val micros = SparkPlans.column(
      PreciseTimestampConversion(SparkPlans.expression(named(options.time)), time.dataType, LongType)
    )
    (micros - pmod(micros, lit(balance.over))) / lit(balance.over)
  }

  private def shown(pairs: Seq[(String, Double)]): String =
    pairs.map { case (name, value) => s"$name: $value" }.mkString(", ")
}

private[examples] object SampleRatio {
  private val Start = 1.0
  private val Over: TimeSpan = "1 hour"
  private val LeastOver = 1000L * 1000
  private val Window = OwnNames.of("window")
  private val Counted = OwnNames.of("counted")
}
