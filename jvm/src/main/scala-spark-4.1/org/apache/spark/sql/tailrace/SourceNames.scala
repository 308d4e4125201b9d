package org.apache.spark.sql.tailrace

/** Names of a query's sources, which this minor version of Spark doesn't have. */
private[tailrace] object SourceNames {
  def named(relation: StreamingRelationV2, name: String): StreamingRelationV2 = {
    require(name.nonEmpty)
    relation
  }
}
