package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeMap, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Union}

/** Metadata that a query gives its sink.
  *
  * @param metadata as it is made
  * @param above    the nodes from the sink down to the one that makes it, that one too
  * @param input    of that node
  * @param below    the nodes from there down to the source of the partition and the offset: where there is a union, each of its
  *                 branches is an origin
  */
private[replay] final case class MetadataOrigin(
    metadata: StreamMetadata,
    above: Seq[LogicalPlan],
    input: LogicalPlan,
    below: Seq[LogicalPlan]
) {

  /** All nodes between the sink and the source. */
  def nodes: Seq[LogicalPlan] = above ++ below

  /** An expression over the input's columns as one over those of the source. */
  def resolved(expression: Expression): Expression = MetadataOrigin.along(expression, below)
}

private[replay] object MetadataOrigin {

  /** Of all columns of a plan that have it. */
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

  /** The children that some attributes of a node come from, with those of theirs that they are made of. */
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

  /** An expression over a plan's columns as one over those of its sources. */
  def resolved(expression: Expression, plan: LogicalPlan): Expression = plan match {
    case project: Project => resolved(made(expression, project), project.child)
    case _: Union => expression
    case other =>
      other.children
        .find(child => expression.references.subsetOf(child.outputSet))
        .fold(expression)(resolved(expression, _))
  }
}
