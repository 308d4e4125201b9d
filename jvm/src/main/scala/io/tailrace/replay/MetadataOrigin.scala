package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeMap, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.plan.TailraceNode

/** One place in a query where metadata for its sink is made.
  *
  * @param metadata the expression that makes it
  * @param above    the nodes from the sink down to the one that makes it, inclusive
  * @param input    the child of that node
  * @param below    the nodes from there down to the source of the partition and the offset. Each branch of a
  *                 union is an origin of its own
  */
private[replay] final case class MetadataOrigin(
    metadata: StreamMetadata,
    above: Seq[LogicalPlan],
    input: LogicalPlan,
    below: Seq[LogicalPlan]
) {

  /** All nodes between the sink and the source. */
  def nodes: Seq[LogicalPlan] = above ++ below

  /** Rewrites an expression over the input's columns into one over the source's columns. */
  def resolved(expression: Expression): Expression = MetadataOrigin.along(expression, below)
}

private[replay] object MetadataOrigin {

  /** The origins of all metadata in a plan's columns. */
  def of(plan: LogicalPlan): Seq[MetadataOrigin] = carried(plan, plan.outputSet, Nil)

  private def carried(
      plan: LogicalPlan,
      wanted: AttributeSet,
      above: Seq[LogicalPlan]
  ): Seq[MetadataOrigin] = {
    val made = plan match {
      case Project(list, child) =>
        list
          .filter(e => wanted.contains(e.toAttribute))
          .flatMap(_.collect { case m: StreamMetadata => m })
          .flatMap { m =>
            val followed = AttributeSet(Seq(m.partition, m.offset).flatMap(_.references))
            paths(child, followed).map(MetadataOrigin(m, above :+ plan, child, _))
          }
      case _ => Nil
    }
    made ++ inputs(plan, wanted).flatMap { case (child, attributes) =>
      carried(child, attributes, above :+ plan)
    }
  }

  /** The children that some attributes of a node come from, each with its attributes that they are made of.
    */
  private def inputs(plan: LogicalPlan, wanted: AttributeSet): Seq[(LogicalPlan, AttributeSet)] = plan match {
    case Project(list, child) =>
      Seq(child -> AttributeSet(list.filter(e => wanted.contains(e.toAttribute)).flatMap(_.references)))
    case union: Union =>
      union.children.map { child =>
        child -> AttributeSet(union.output.zip(child.output).collect {
          case (o, c) if wanted.contains(o) => c
        })
      }
    case other =>
      val all = if (wanted.subsetOf(other.inputSet)) wanted else wanted ++ other.references
      other.children.map(child => child -> all.intersect(child.outputSet)).filter(_._2.nonEmpty)
  }

  private def paths(plan: LogicalPlan, wanted: AttributeSet): Seq[Seq[LogicalPlan]] = {
    val all = inputs(plan, wanted)
    val followed = if (plan.isInstanceOf[Union]) all else all.take(1)
    if (followed.isEmpty) Seq(Seq(plan))
    else followed.flatMap { case (child, attributes) => paths(child, attributes).map(plan +: _) }
  }

  private def along(expression: Expression, path: Seq[LogicalPlan]): Expression = path match {
    case (project: Project) +: rest => along(made(expression, project), rest)
    case (union: Union) +: (branch +: rest) =>
      val columns = AttributeMap(union.output.zip(branch.output))
      along(expression.transform { case a: Attribute if columns.contains(a) => columns(a) }, branch +: rest)
    case _ +: (next +: rest) if expression.references.subsetOf(next.outputSet) =>
      along(expression, next +: rest)
    case _ => expression
  }

  private def made(expression: Expression, project: Project): Expression = {
    val aliases = AttributeMap(project.projectList.collect { case a: Alias => a.toAttribute -> a.child })
    expression.transform { case a: Attribute if aliases.contains(a) => aliases(a) }
  }

  /** Rewrites an expression over a plan's columns into one over the columns of its sources. */
  def resolved(expression: Expression, plan: LogicalPlan): Expression = plan match {
    case project: Project => resolved(made(expression, project), project.child)
    case _: Union => expression
    case other =>
      other.children
        .find(child => expression.references.subsetOf(child.outputSet))
        .fold(expression)(resolved(expression, _))
  }
}

/** Finds out whether rows with metadata come to the sink in the order of their source partition, all rows of
  * a partition in one task. If they don't, a reader takes original records for replays.
  *
  * An exchange by the source partition alone does no harm: rows that one task sends to another arrive in the
  * order in which they were sent.
  */
private[replay] final class MetadataOrder(origin: MetadataOrigin) {

  /** The columns that name a row's source partition. */
  val partition: AttributeSet = {
    val topics = origin.below.lastOption.toSeq.flatMap(_.output.filter(_.name == "topic"))
    // The columns of a union, and the columns of its branch.
    val made = Seq(
      MetadataOrigin.resolved(origin.metadata.partition, origin.input),
      origin.resolved(origin.metadata.partition)
    )
    AttributeSet(made.flatMap(_.references) ++ topics)
  }

  /** The reason why rows come out of order, in a user's words. */
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
    // Groups by the source partition too: Spark promises no order of a group's rows, and the function may
    // reorder them.
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
    // Before the optimizer has run, a hint is a node of its own.
    val hinted = hint.flatMap(_.strategy).contains(BROADCAST) || table.exists {
      case h: ResolvedHint => h.hints.strategy.contains(BROADCAST)
      case _ => false
    }
    hinted || table.stats.sizeInBytes <= SparkPlans.broadcastBytes
  }
}
