package io.tailrace.recursion

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.BooleanType

import io.tailrace.plan.{Obstacle, TailraceNode}

/** Reads the plan of a recursion's op: whether it can work at all, and how its rows go round.
  *
  * @param argument which leaves stand for op's argument
  */
final class OpRules(argument: Long) {

  def isArgument(plan: LogicalPlan): Boolean = plan match {
    case a: RecursionArgument => a.id == argument
    case _ => false
  }

  def usesArgument(plan: LogicalPlan): Boolean = plan.exists(isArgument)

  /** Whether the argument is in a subquery, where nothing can go round. */
  def isInSubquery(plan: LogicalPlan): Boolean =
    plan.exists(
      _.expressions.exists(_.exists {
        case subquery: SubqueryExpression => usesArgument(subquery.plan) || isInSubquery(subquery.plan)
        case _ => false
      })
    )

  /** The operators on the way from the argument to the result. */
  def way(plan: LogicalPlan): Seq[LogicalPlan] = plan.collect {
    case node if !isArgument(node) && usesArgument(node) => node
  }

  /** The argument itself, whatever its columns are called now. */
  def isIdentity(plan: LogicalPlan): Boolean = plan match {
    case SubqueryAlias(_, child) => isIdentity(child)
    case view: View => isIdentity(view.child)
    case Project(list, child) =>
      isIdentity(child) && list.size == child.output.size && list.zip(child.output).forall {
        case (named, column) =>
          named.toAttribute.exprId == column.exprId || named.collectFirst { case a: Attribute => a }.exists {
            a =>
              named.children == Seq(a) && a.exprId == column.exprId
          }
      }
    case other => isArgument(other)
  }

  /** Whether on some way from the argument to the result no row can get lost: then each gives another one, for ever. */
  def isEndless(plan: LogicalPlan): Boolean =
    if (isArgument(plan)) true
    else
      plan match {
        case Union(children, _, _) => children.filter(usesArgument).exists(isEndless)
        case node if canDrop(node) => false
        case node => node.children.filter(usesArgument).exists(isEndless)
      }

  private def canDrop(node: LogicalPlan): Boolean = node match {
    case Filter(Literal(true, BooleanType), _) => false
    case _: Filter => true
    case join: Join => dropsArgument(join)
    case node: TailraceNode => node.dropsRows
    case generate: Generate => !generate.outer
    case _: Project | _: SubqueryAlias | _: View | _: ResolvedHint | _: Sort | _: RepartitionOperation |
        _: EventTimeWatermark | _: Window | _: MapElements | _: DeserializeToObject | _: SerializeFromObject |
        _: AppendColumns | _: CollectMetrics | _: Expand | _: Union =>
      false
    // Limits, deduplication, sampling, aggregation, functions that give any number of rows, and what we don't know.
    case _ => true
  }

  private def dropsArgument(join: Join): Boolean = join.joinType match {
    case LeftOuter => !usesArgument(join.left)
    case RightOuter => !usesArgument(join.right)
    case FullOuter | ExistenceJoin(_) => false
    case _ => true
  }

  /** Why op's result for some rows isn't the results for each of them, put together, so that it can't be worked out rows by
    * rows in their tasks.
    *
    * @return none if it can
    */
  def needsState(plan: LogicalPlan): Option[Obstacle] =
    streams(plan).headOption
      .map(leaf => Obstacle(leaf.nodeName, "op reads a stream besides its argument"))
      .orElse(way(plan).flatMap(obstacle).headOption)

  private def streams(plan: LogicalPlan): Seq[LogicalPlan] =
    plan.collectLeaves().filter(leaf => leaf.isStreaming && !isArgument(leaf))

  private def obstacle(node: LogicalPlan): Option[Obstacle] = node match {
    case _: Project | _: Filter | _: Generate | _: SubqueryAlias | _: View | _: ResolvedHint |
        _: RepartitionOperation | _: Expand | _: Sample | _: MapElements | _: MapPartitions | _: TypedFilter |
        _: DeserializeToObject | _: SerializeFromObject | _: AppendColumns | _: MapInPandas | _: MapInArrow =>
      None
    case sort: Sort if !sort.global => None
    case join: Join => joinObstacle(join)
    case union: Union =>
      if (union.children.forall(usesArgument)) None
      else
        Some(
          Obstacle("a union", "one of its sides gives the same rows at each hop, whatever the argument is")
        )
    case other => Some(Obstacle(other.nodeName, "it has to know rows of earlier hops"))
  }

  private def joinObstacle(join: Join): Option[Obstacle] = {
    val sides = Seq(join.left, join.right).count(usesArgument)
    val keepsTable = join.joinType match {
      case _: InnerLike => false
      case LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_) => usesArgument(join.right)
      case RightOuter => usesArgument(join.left)
      case _ => true
    }
    if (sides == 2) Some(Obstacle("a join", "it joins the argument with itself, over all hops"))
    else if (keepsTable)
      Some(
        Obstacle(
          s"a ${join.joinType.sql.toLowerCase} join",
          "it gives rows of the other side that no row matches"
        )
      )
    else None
  }

  /** The node that can't be on the way, however the rows go round. */
  def refused(plan: LogicalPlan): Option[Obstacle] = way(plan).collectFirst {
    case node: TailraceNode if node.refusedInRecursion.isDefined => node.refusedInRecursion.get
    case _: EventTimeWatermark => Obstacle.Watermark
    case _: CollectMetrics => Obstacle("observe", "its metrics would be of each hop")
    case sample: Sample if sample.withReplacement =>
      Obstacle("a sample with replacement", "it would draw the same rows at each hop")
    case node if numbersRows(node).isDefined => numbersRows(node).get
  }

  /** A sample's seed is the same in each micro-batch, so in each hop of a recursion that takes a micro-batch a hop. */
  def refusedByMicroBatch(plan: LogicalPlan): Option[Obstacle] = way(plan).collectFirst { case _: Sample =>
    Obstacle("a sample", "it would draw the same rows at each hop; where(rand() < fraction) doesn't")
  }

  private def numbersRows(node: LogicalPlan): Option[Obstacle] =
    node.expressions
      .flatMap(_.collect {
        case _: MonotonicallyIncreasingID =>
          Obstacle(
            "monotonically_increasing_id()",
            "it begins anew at each hop; uuid() doesn't repeat itself"
          )
        case file @ (_: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength) =>
          Obstacle(s"${file.prettyName}()", "a row that comes round is of no file")
      })
      .headOption

  def isNested(plan: LogicalPlan): Boolean = way(plan).exists(_.isInstanceOf[Recursion])
}
