package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Sample}
import org.apache.spark.sql.catalyst.streaming.{HasStreamingSourceIdentifyingName, UserProvided}
import org.apache.spark.sql.internal.SQLConf

/** Names of a query's sources. Where `spark.sql.streaming.queryEvolution.enableSourceEvolution` is on, each needs one: the
  * user has named his own, but can't name ours.
  */
object SourceNames {

  private def areGiven: Boolean = SQLConf.get.enableStreamingSourceEvolution

  /** Those of a query; none if its user doesn't name them. */
  def of(plan: LogicalPlan): Seq[String] =
    if (!areGiven) Nil
    else
      plan
        .collect { case source: HasStreamingSourceIdentifyingName => source.sourceIdentifyingName }
        .flatMap(_.nameOpt)

  /** @param name of letters, digits, ., _ and -; it is a directory of the checkpoint, and is in the offset log */
  private[tailrace] def named(relation: StreamingRelationV2, name: String): StreamingRelationV2 =
    if (areGiven) relation.copy(sourceIdentifyingName = UserProvided(name))
    else relation
}

object SampleSeed {

  /** The seed of a sample; one that was given none has 0. */
  def of(sample: Sample): Long = sample.seed.getOrElse(0L)
}
