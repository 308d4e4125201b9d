package io.tailrace.join

import org.apache.spark.sql.tailrace.QueryStart

import io.tailrace.checkpoint.RepartitionTurn
import io.tailrace.plan.WriteCheck

/** Does what a rescaling that has died behind its turn has left to do. A query looks before Spark reads its logs:
  * behind that the number of partitions would be too late.
  */
private[tailrace] object TurnAtStart extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    start.checkpoint.foreach(RepartitionTurn.finish(_, start.hadoopConf))
}
