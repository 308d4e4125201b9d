package io.tailrace.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.execution.streaming.{ContinuousTrigger, RealTimeTrigger}
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.ModeErrors

/** Refuses output modes and triggers that an operator of the query can't be run with. Other output modes than append are Spark's
  * affair where none of ours keeps rows that come out once: a count after `accurate_watermark` may be in any of them.
  */
private[plan] object WriteModeCheck {

  /** Operators, as a user calls them. */
  private[plan] val nodes: Seq[(Class[_], String)] = Seq(
    classOf[LabelJoin] -> "join",
    classOf[SyncJoin] -> "sync_join",
    classOf[FilterReplays] -> "filter_replays",
    classOf[HostProgress] -> "accurate_watermark",
    classOf[Recursion] -> "recursively",
    classOf[StampWatermark] -> "stamp_watermark",
    classOf[LandWindows] -> "write_windows"
  ).map { case (node, name) => node -> s"tailrace.$name" }

  private val appendOnly = Seq("join", "sync_join", "write_windows").map("tailrace." + _).toSet

  /** The operators of a plan: those above first. */
  def operators(plan: LogicalPlan): Seq[String] = plan.collect { case node => name(node) }.flatten

  private def name(node: LogicalPlan): Option[String] =
    nodes.collectFirst { case (of, name) if of.isInstance(node) => name }

  /** A node's operator that has files of each micro-batch; a recursion that has some is the source's affair. */
  def keeping(node: LogicalPlan): Option[String] =
    name(node).filterNot(_ => node.isInstanceOf[Recursion] || node.isInstanceOf[StampWatermark])

  def apply(write: WriteToStreamStatement): Unit = {
    val ours = operators(write.inputQuery)
    ours.headOption.foreach { first =>
      write.trigger match {
        case _: RealTimeTrigger => throw ModeErrors.realTime(first)
        case _: ContinuousTrigger => throw ModeErrors.continuous(first)
        case _ =>
      }
    }
    ours.find(appendOnly).filterNot(_ => SparkPlans.isAppend(write.outputMode)).foreach { operator =>
      throw ModeErrors.output(operator, write.outputMode.toString)
    }
  }
}
