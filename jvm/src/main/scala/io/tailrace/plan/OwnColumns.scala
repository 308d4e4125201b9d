package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}

/** Lets a frame with a node of ours be on both sides of a join. Spark gives the columns of one side new ids then, and knows
  * where to for its own nodes only: what ours add it would find on both sides for good, and resolve nothing. So they come
  * out through a projection, which Spark does know, and which its optimizer removes where it isn't needed.
  */
object OwnColumns {
  def renewable(plan: LogicalPlan): LogicalPlan = {
    val own = plan.producedAttributes
    if (own.isEmpty) plan
    else Project(plan.output.map(a => if (own.contains(a)) Alias(a, a.name)() else a), plan)
  }
}
