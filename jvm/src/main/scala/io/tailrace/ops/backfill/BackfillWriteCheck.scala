package io.tailrace.ops.backfill

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tailrace.{FrameStream, QueryStart, StreamingRelationV2}

import io.tailrace.plan.{UnnumberedSource, WriteCheck}

/** Refuses a history that the live query couldn't resume, before its first micro-batch.
  *
  * Spark numbers the sources of a query in the order of its plan, and their directories in the checkpoint have these
  * numbers. A [[SlicedTable]] has neither:
  *
  * {{{
  *   the pipeline   impressions    devices, a stream that is no argument
  *   history        -              sources/0
  *   live           sources/0      sources/1
  * }}}
  *
  * So impressions would begin with the files that devices have read.
  */
private[tailrace] object BackfillWriteCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit = {
    val sources = start.plan.collectLeaves().filter(_.isStreaming)
    if (sources.exists(FrameStream.isIn)) {
      sources.find(source => !FrameStream.isIn(source) && !isUnnumbered(source)).foreach { other =>
        throw BackfillErrors.otherSource(other.simpleString(MostFields))
      }
      if (!start.resumes) throw BackfillErrors.sink(start.sinkName)
    }
  }

  /** A recursion keeps its rows under its own name. */
  private def isUnnumbered(source: LogicalPlan): Boolean = source match {
    case relation: StreamingRelationV2 => relation.table.isInstanceOf[UnnumberedSource]
    case _ => false
  }

  private val MostFields = 10
}
