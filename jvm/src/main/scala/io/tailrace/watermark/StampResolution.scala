package io.tailrace.watermark

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.types.BinaryType

import io.tailrace.plan.{Columns, OwnColumns}

/** Checks that the completeness of all watermarks of a DataFrame is known.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class StampResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  def resolve(into: String): LogicalPlan = {
    new Columns(WatermarkOptions.stamp, child.output, sameName)
      .checkAdded(into, s"Choose another name than '$into' for `into`.")
    if (child.isStreaming) {
      val watermarks = child.collect { case w: EventTimeWatermark => w.nodeId }.toSet
      val accurate = child.collect { case p: HostProgress => p.nodeId }.toSet
      if (watermarks.isEmpty || watermarks != accurate) throw WatermarkErrors.stampSource()
    }
    OwnColumns.renewable(StampWatermark(AttributeReference(into, BinaryType)(), child))
  }
}
