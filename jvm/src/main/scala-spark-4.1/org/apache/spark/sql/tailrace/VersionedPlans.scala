package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Sample}

/** Names of a query's sources, which this minor version of Spark doesn't have. */
object SourceNames {
  def of(plan: LogicalPlan): Seq[String] = {
    require(plan.isStreaming)
    Nil
  }

  private[tailrace] def named(relation: StreamingRelationV2, name: String): StreamingRelationV2 = {
    require(name.nonEmpty)
    relation
  }
}

object SampleSeed {

  /** The seed of a sample. */
  def of(sample: Sample): Long = sample.seed
}
