package io.tailrace.examples

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.{DataFrame, Dataset}

/** What is done with the joined rows: they are counted, sampled, and get their features.
  *
  * {{{
  *   joined ──> counts ──> sample ──> features          a row that the sample leaves out asks for no features
  *   joined ──> features ──> counts ──> sample          where a predicate of the sample names features
  * }}}
  */
private[tailrace] final class Finish(
    options: ExampleOptions,
    labels: Seq[ExampleLabel],
    features: Seq[ExampleFeatures]
) {

  def of(joined: DataFrame)(withFeatures: DataFrame => DataFrame): DataFrame =
    if (needsFeatures(joined)) sampled(withFeatures(joined)) else withFeatures(sampled(joined))

  /** The impressions that are joined at all.
    *
    * @param frames of the labels
    */
  def arriving(impressions: Dataset[_], frames: Seq[Dataset[_]]): Dataset[_] =
    options.sample.fold[Dataset[_]](impressions)(
      new Sampling(_, options, labels).ofArriving(impressions, frames)
    )

  private def sampled(rows: DataFrame): DataFrame =
    options.sample.fold(ExampleCounts.add(rows, options, labels, Nil)) { sample =>
      new Sampling(sample, options, labels).of(rows)(ExampleCounts.add(_, options, labels, _))
    }

  private def needsFeatures(joined: DataFrame): Boolean = options.sample.exists { sample =>
    val columns = joined.columns.toSeq
    val named = sample.rates.flatMap { case (predicate, _) =>
      Conditions
        .read(ExampleOptions.arguments.call, "rates", predicate, columns)(
          SparkPlans.expression(expr(predicate))
        )
        .collect { case a: UnresolvedAttribute => a.nameParts.head }
    }
    named.exists(name => features.exists(_.name.equalsIgnoreCase(name)))
  }
}
