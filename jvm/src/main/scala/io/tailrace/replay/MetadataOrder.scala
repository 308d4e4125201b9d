package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf

import io.tailrace.plan.TailraceNode

/** Whether rows with metadata come to the sink in the order of their source partition, each partition's in one task. If they
  * don't, who reads them takes originals for replays.
  *
  * An exchange by the source partition alone is no harm: what one task sends to another comes in the order in which it was sent.
  */
private[replay] final class MetadataOrder(origin: MetadataOrigin) {

  /** What says which source partition a row is of. */
  val partition: AttributeSet = {
    val topics = origin.below.lastOption.toSeq.flatMap(_.output.filter(_.name == "topic"))
    // Above a union by its columns, below it by the branch's.
    val made = Seq(
      MetadataOrigin.resolved(origin.metadata.partition, origin.input),
      origin.resolved(origin.metadata.partition)
    )
    AttributeSet(made.flatMap(_.references) ++ topics)
  }

  /** @return what brings them out of order, in a user's words */
  def broken: Option[String] =
    origin.nodes.flatMap(node => disturbs(node).orElse(KafkaRead.splits(node))).headOption

  private def isOfPartition(e: Expression, input: LogicalPlan): Boolean =
    MetadataOrigin.resolved(e, input).references.subsetOf(partition)

  private def disturbs(node: LogicalPlan): Option[String] = node match {
    case r: Repartition if !r.shuffle => None
    case r: RepartitionByExpression
        if r.partitionExpressions.nonEmpty && r.partitionExpressions.forall(isOfPartition(_, r.child)) =>
      None
    case _: RepartitionOperation | _: RebalancePartitions => Some("an exchange (repartition)")
    case _: Sort => Some("a sort")
    case _: Window => Some("a window function")
    case _: Aggregate | _: Distinct => Some("an aggregation")
    case _: Deduplicate | _: DeduplicateWithinWatermark => Some("the removal of duplicates")
    case _: GlobalLimit => Some("a limit")
    case j: Join if j.children.forall(_.isStreaming) => Some("a join of two streams")
    case j: Join if !isBroadcast(j) => Some("a join with a table that isn't broadcast")
    case node: TailraceNode => node.reorders
    // By the source partition, too: Spark promises no order of a group's rows, and the function may give them in any.
    case _: MapGroups | _: FlatMapGroupsWithState | _: TransformWithState | _: CoGroup =>
      Some("groups of rows")
    case _: FlatMapGroupsInPandas | _: FlatMapGroupsInArrow | _: FlatMapGroupsInPandasWithState |
        _: TransformWithStateInPySpark | _: FlatMapCoGroupsInPandas | _: FlatMapCoGroupsInArrow =>
      Some("groups of rows")
    case _: FlatMapGroupsInR | _: FlatMapGroupsInRWithArrow => Some("groups of rows")
    case _: SetOperation => Some("a set operation")
    case _ => None
  }

  private def isBroadcast(join: Join): Boolean = {
    val (table, hint) =
      if (join.left.isStreaming) (join.right, join.hint.rightHint) else (join.left, join.hint.leftHint)
    // Before the optimizer a hint is a node of its own.
    val hinted = hint.flatMap(_.strategy).contains(BROADCAST) || table.exists {
      case h: ResolvedHint => h.hints.strategy.contains(BROADCAST)
      case _ => false
    }
    hinted || table.stats.sizeInBytes <= SQLConf.get.autoBroadcastJoinThreshold
  }
}
