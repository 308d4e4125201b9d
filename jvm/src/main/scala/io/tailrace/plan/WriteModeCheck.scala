package io.tailrace.plan

import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.execution.streaming.{ContinuousTrigger, RealTimeTrigger}
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.ModeErrors

/** Refuses output modes and triggers that an operator of the query can't be run with. Other output modes than append are Spark's
  * affair where none of ours keeps rows that come out once: a count after `accurate_watermark` may be in any of them.
  */
private[plan] object WriteModeCheck {

  /** @param nodes of the query: those above first */
  def apply(write: WriteToStreamStatement, nodes: Seq[TailraceNode]): Unit = {
    nodes.headOption.map(_.operator).foreach { first =>
      write.trigger match {
        case _: RealTimeTrigger => throw ModeErrors.realTime(first)
        case _: ContinuousTrigger => throw ModeErrors.continuous(first)
        case _ =>
      }
    }
    if (!SparkPlans.isAppend(write.outputMode)) nodes.find(_.onlyAppends).foreach { node =>
      throw ModeErrors.output(node.operator, write.outputMode.toString)
    }
  }
}
