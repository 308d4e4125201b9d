package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.streaming.UserProvided
import org.apache.spark.sql.internal.SQLConf

/** Names of a query's sources. Where `spark.sql.streaming.queryEvolution.enableSourceEvolution` is on, each needs one: the
  * user has named his own, but can't name ours.
  */
private[tailrace] object SourceNames {

  /** @param name of letters, digits, ., _ and -; it is a directory of the checkpoint, and stands in the offset log */
  def named(relation: StreamingRelationV2, name: String): StreamingRelationV2 =
    if (SQLConf.get.enableStreamingSourceEvolution) relation.copy(sourceIdentifyingName = UserProvided(name))
    else relation
}
