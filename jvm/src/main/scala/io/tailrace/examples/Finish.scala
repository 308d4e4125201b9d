package io.tailrace.examples

import org.apache.spark.sql.functions.when
import org.apache.spark.sql.{DataFrame, Dataset}

import io.tailrace.plan.Columns

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

  def of(joined: DataFrame)(withFeatures: DataFrame => DataFrame): DataFrame = {
    if (needsFeatures(joined)) {
      // An amended row has no features.
      options.amendFor.foreach { text =>
        val allowed = "none, because a predicate of the sample names features, which amended rows haven't"
        throw ExampleOptions.arguments.invalid("amend_for", text, allowed)
      }
      sampled(withFeatures(joined))
    } else withoutFeaturesOfAmended(withFeatures(sampled(joined)))
  }

  /** An amended row is behind the watermark, or just before it: whether features would still be found is chance. */
  private def withoutFeaturesOfAmended(rows: DataFrame): DataFrame =
    if (options.amendFor.isEmpty) rows
    else
      features.foldLeft(rows) { (frame, one) =>
        frame.withColumn(one.name, when(!ExampleCounts.isAmended(options), Columns.named(one.name)))
      }

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
    Sampling
      .asked(sample, joined.columns.toSeq)
      .exists(name => features.exists(_.name.equalsIgnoreCase(name)))
  }
}
