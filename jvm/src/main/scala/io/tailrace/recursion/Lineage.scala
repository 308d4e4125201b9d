package io.tailrace.recursion

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._

import io.tailrace.plan.StreamJoin

/** Has columns of op's argument that op doesn't know of come out of op too: then each result has what the row had that it
  * came of, how deep it was and which keys it had come by.
  *
  * {{{
  *   Project [parent AS node]                     Project [parent AS node, path]
  *     Join node                            ->      Join node
  *       RecursionArgument [node]                     RecursionArgument [node, path]
  *       Relation [node, parent]                      Relation [node, parent]
  * }}}
  *
  * @param hidden the columns
  */
private[tailrace] final class Lineage(rules: OpRules, hidden: Seq[AttributeReference]) {

  /** @return the plan with the columns among its own, and what they are called there; or the operator that doesn't let them
    *         pass
    */
  def carry(plan: LogicalPlan): Either[String, (LogicalPlan, Seq[Attribute])] = plan match {
    case leaf: RecursionArgument if rules.isArgument(leaf) =>
      // A frame that op uses twice is two leaves.
      val own = hidden.map(_.newInstance())
      Right((leaf.copy(output = leaf.output ++ own), own))
    case Project(list, child) =>
      carry(child).map { case (carried, own) => (Project(list ++ own, carried), own) }
    // Of a temporary view; the optimizer would put its child in its place, too.
    case view: View if view.output == view.child.output => carry(view.child)
    case node @ (_: Filter | _: SubqueryAlias | _: ResolvedHint | _: RepartitionOperation | _: Sort |
        _: Sample | _: Generate | _: Deduplicate | _: DeduplicateWithinWatermark) =>
      carry(node.children.head).map { case (carried, own) => (node.withNewChildren(Seq(carried)), own) }
    case join: Join => carryJoin(join)
    case join: StreamJoin if rules.usesArgument(join.left) && !rules.usesArgument(join.right) =>
      carry(join.left).map { case (carried, own) => (join.withNewChildren(Seq(carried, join.right)), own) }
    case union: Union => carryUnion(union)
    case other => Left(other.nodeName)
  }

  private def carryJoin(join: Join): Either[String, (LogicalPlan, Seq[Attribute])] = {
    val (inLeft, inRight) = (rules.usesArgument(join.left), rules.usesArgument(join.right))
    val passes = join.joinType match {
      case _: InnerLike => inLeft != inRight
      case LeftOuter | LeftSemi | LeftAnti => inLeft && !inRight
      case RightOuter => inRight && !inLeft
      case _ => false
    }
    if (!passes) Left(s"a ${join.joinType.sql.toLowerCase} join")
    else if (inLeft) carry(join.left).map { case (carried, own) => (join.copy(left = carried), own) }
    else carry(join.right).map { case (carried, own) => (join.copy(right = carried), own) }
  }

  private def carryUnion(union: Union): Either[String, (LogicalPlan, Seq[Attribute])] =
    if (!union.children.forall(rules.usesArgument)) Left("a union with other rows")
    else {
      val branches = union.children.map { child =>
        carry(child).map { case (carried, own) => Project(child.output ++ own, carried) -> own }
      }
      branches.collectFirst { case Left(operator) => operator } match {
        case Some(operator) => Left(operator)
        case None =>
          val carried = branches.collect { case Right(branch) => branch }
          // A union's columns are those of its first side, by name and number.
          val both = union.copy(children = carried.map(_._1))
          Right((both, both.output.takeRight(hidden.size)))
      }
    }
}
