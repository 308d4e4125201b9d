package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.plans.logical.Sample

object SampleSeed {

  /** The seed of a sample. */
  def of(sample: Sample): Long = sample.seed
}
