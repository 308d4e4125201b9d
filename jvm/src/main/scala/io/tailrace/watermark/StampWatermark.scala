package io.tailrace.watermark

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.plan.{Obstacle, TailraceNode}

/** `tailrace.stamp_watermark`, resolved.
  *
  * @param stamp the column that is added
  */
case class StampWatermark(stamp: Attribute, child: LogicalPlan) extends UnaryNode with TailraceNode {
  override def operator: String = "tailrace.stamp_watermark"
  override def keepsBatches: Boolean = false
  override def dropsRows: Boolean = false

  override def refusedInRecursion: Option[Obstacle] = Some(
    Obstacle("stamp_watermark", "a row that goes round would keep an old stamp")
  )

  override def output: Seq[Attribute] = child.output :+ stamp

  override def producedAttributes: AttributeSet = AttributeSet(stamp)

  override protected def withNewChildInternal(newChild: LogicalPlan): StampWatermark = copy(child = newChild)
}

object StampWatermarkStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case s: StampWatermark =>
      // A frame that is used twice is one source.
      val sources = s.child.collect { case p: HostProgress => p.settings }.distinctBy(_.name)
      StampWatermarkExec(s.stamp, sources, s.isStreaming, planLater(s.child)) :: Nil
    case _ => Nil
  }
}
