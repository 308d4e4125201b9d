package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeMap, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Union}

/** Metadata that a query gives its sink.
  *
  * @param metadata as it is made
  * @param above    the nodes from the sink down to the one that makes it, that one too
  * @param input    of that node
  */
private[replay] final case class MetadataOrigin(
    metadata: StreamMetadata,
    above: Seq[LogicalPlan],
    input: LogicalPlan
) {
  private val wanted = AttributeSet(Seq(metadata.partition, metadata.offset).flatMap(_.references))

  /** The nodes from there down to the source of the partition and the offset, with the attributes that are followed. */
  val below: Seq[LogicalPlan] = MetadataOrigin.path(input, wanted)

  /** All nodes between the sink and the source. */
  def nodes: Seq[LogicalPlan] = above ++ below
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
          .flatMap(_.collect { case m: StreamMetadata =>
            MetadataOrigin(m, above :+ plan, child)
          })
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

  private def path(plan: LogicalPlan, wanted: AttributeSet): Seq[LogicalPlan] =
    plan +: inputs(plan, wanted).headOption.fold(Seq.empty[LogicalPlan]) { case (child, attributes) =>
      path(child, attributes)
    }

  /** An expression over a plan's columns as one over those of its sources. */
  def resolved(expression: Expression, plan: LogicalPlan): Expression = plan match {
    case Project(list, child) =>
      val made = AttributeMap(list.collect { case a: Alias => a.toAttribute -> a.child })
      resolved(expression.transform { case a: Attribute if made.contains(a) => made(a) }, child)
    case _: Union => expression
    case other =>
      other.children
        .find(child => expression.references.subsetOf(child.outputSet))
        .fold(expression)(resolved(expression, _))
  }
}
