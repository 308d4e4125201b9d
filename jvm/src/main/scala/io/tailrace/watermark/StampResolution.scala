package io.tailrace.watermark

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.types.BinaryType

import io.tailrace.common.Errors
import io.tailrace.plan.OwnColumns

/** Checks that a frame has watermarks whose completeness is known.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class StampResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  def resolve(into: String): LogicalPlan = {
    if (child.output.exists(a => sameName(a.name, into))) throw Errors.watermarkColumnExists(into)
    if (child.isStreaming) {
      val watermarks = child.collect { case w: EventTimeWatermark => w.nodeId }.toSet
      val accurate = child.collect { case p: HostProgress => p.nodeId }.toSet
      if (watermarks.isEmpty || watermarks != accurate) throw Errors.watermarkStampSource()
    }
    OwnColumns.renewable(StampWatermark(AttributeReference(into, BinaryType)(), child))
  }
}
