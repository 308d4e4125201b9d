package io.tailrace.recursion

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.BooleanType

import io.tailrace.plan.{Obstacle, TailraceNode}

/** Analyzes the plan of a recursion's op: whether it is supported, and how its rows are fed back.
  *
  * @param argument the id of the leaves that stand for op's argument
  */
final class OpRules(argument: Long) {

  def isArgument(plan: LogicalPlan): Boolean = plan match {
    case a: RecursionArgument => a.id == argument
    case _ => false
  }

  def usesArgument(plan: LogicalPlan): Boolean = plan.exists(isArgument)

  /** True if the argument is in a subquery, which can't feed rows back. */
  def isInSubquery(plan: LogicalPlan): Boolean =
    plan.exists(
      _.expressions.exists(_.exists {
        case subquery: SubqueryExpression => usesArgument(subquery.plan) || isInSubquery(subquery.plan)
        case _ => false
      })
    )

  /** The operators on the way from the argument to the result. */
  private def way(plan: LogicalPlan): Seq[LogicalPlan] =
    plan.collect { case node if !isArgument(node) && usesArgument(node) => node }

  /** True if op returns the argument itself, possibly under other column names. */
  def isIdentity(plan: LogicalPlan): Boolean = plan match {
    case SubqueryAlias(_, child) => isIdentity(child)
    case view: View => isIdentity(view.child)
    case Project(list, child) =>
      isIdentity(child) && list.size == child.output.size && list.zip(child.output).forall {
        case (Alias(a: Attribute, _), column) => a.exprId == column.exprId
        case (named, column) => named.exprId == column.exprId
      }
    case other => isArgument(other)
  }

  /** True if some way from the argument to the result loses no row: then each row gives another one. */
  def isEndless(plan: LogicalPlan): Boolean =
    isArgument(plan) || (!canDrop(plan) && plan.children.filter(usesArgument).exists(isEndless))

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
    // Limits, deduplication, sampling, aggregation, functions that give any number of rows; unknown nodes.
    case _ => true
  }

  private def dropsArgument(join: Join): Boolean = join.joinType match {
    case LeftOuter => !usesArgument(join.left)
    case RightOuter => !usesArgument(join.right)
    case FullOuter | ExistenceJoin(_) => false
    case _ => true
  }

  /** The reason why op's result for some rows isn't the results for each of them, put together. Then tasks
    * can't work it out for their own rows alone.
    *
    * @return none if they can
    */
  def needsState(plan: LogicalPlan): Option[Obstacle] =
    plan
      .collectLeaves()
      .find(leaf => leaf.isStreaming && !isArgument(leaf))
      .map(leaf => Obstacle(leaf.nodeName, "op reads a stream besides its argument"))
      .orElse(way(plan).flatMap(obstacle).headOption)

  private def obstacle(node: LogicalPlan): Option[Obstacle] = node match {
    case _: Project | _: Filter | _: Generate | _: SubqueryAlias | _: View | _: ResolvedHint |
        _: RepartitionOperation | _: Expand | _: Sample | _: MapElements | _: MapPartitions | _: TypedFilter |
        _: DeserializeToObject | _: SerializeFromObject | _: AppendColumns | _: MapInPandas | _: MapInArrow =>
      None
    case sort: Sort if !sort.global => None
    case join: Join => joinObstacle(join)
    case union: Union =>
      val reason = "one of its sides gives the same rows at each hop, whatever the argument is"
      Option.when(!union.children.forall(usesArgument))(Obstacle("a union", reason))
    case other => Some(Obstacle(other.nodeName, "it has to know rows of earlier hops"))
  }

  private def joinObstacle(join: Join): Option[Obstacle] = {
    val keepsTable = join.joinType match {
      case _: InnerLike => false
      case LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_) => usesArgument(join.right)
      case RightOuter => usesArgument(join.left)
      case _ => true
    }
    if (usesArgument(join.left) && usesArgument(join.right))
      Some(Obstacle("a join", "it joins the argument with itself, over all hops"))
    else {
      val name = s"a ${join.joinType.sql.toLowerCase(Locale.ROOT)} join"
      Option.when(keepsTable)(Obstacle(name, "it gives rows of the other side that no row matches"))
    }
  }

  /** The node that isn't supported on the way, in either mode. */
  def refused(plan: LogicalPlan): Option[Obstacle] = way(plan).flatMap {
    case node: TailraceNode if node.refusedInRecursion.isDefined => node.refusedInRecursion
    case _: EventTimeWatermark => Some(Obstacle.Watermark)
    case _: CollectMetrics => Some(Obstacle("observe", "its metrics would be of each hop"))
    case sample: Sample if sample.withReplacement =>
      Some(Obstacle("a sample with replacement", "it would draw the same rows at each hop"))
    case node => node.expressions.flatMap(_.collect(numbersRows)).headOption
  }.headOption

  /** A sample's seed is the same in each micro-batch, so in each hop of a recursion by feedback. */
  def refusedByMicroBatch(plan: LogicalPlan): Option[Obstacle] = way(plan).collectFirst { case _: Sample =>
    Obstacle("a sample", "it would draw the same rows at each hop; where(rand() < fraction) doesn't")
  }

  private val numbersRows: PartialFunction[Expression, Obstacle] = {
    case _: MonotonicallyIncreasingID =>
      Obstacle("monotonically_increasing_id()", "it begins anew at each hop; uuid() doesn't repeat itself")
    case file @ (_: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength) =>
      Obstacle(s"${file.prettyName}()", "a row that comes round is of no file")
  }

  def isNested(plan: LogicalPlan): Boolean = way(plan).exists(_.isInstanceOf[Recursion])
}
