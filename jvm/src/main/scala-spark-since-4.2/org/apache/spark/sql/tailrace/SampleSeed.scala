package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.plans.logical.Sample

object SampleSeed {

  /** The seed of a sample; one that was given none has 0. */
  def of(sample: Sample): Long = sample.seed.getOrElse(0L)
}
