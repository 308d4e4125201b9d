package io.tailrace.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.{Errors, SyncErrors, TailraceConf, WatermarkErrors}

/** Refuses a streaming query that Tailrace can't run when it is started, in the caller's thread, instead of when its
  * first batch is planned. A hint rule, because those come first: the statement that still knows output mode and trigger
  * is gone as soon as Spark's own resolution has begun.
  */
object StreamingWriteCheck extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case write: WriteToStreamStatement =>
        val synced = write.inputQuery.collect { case j: SyncJoin => j.settings.name }
        val filters = write.inputQuery.collect { case f: FilterReplays => f.settings.name }
        val watermarks = write.inputQuery.collect { case p: HostProgress => p.nodeId -> p.settings.name }
        val recursions = write.inputQuery.collect { case r: Recursion => r }
        WriteModeCheck(write)
        if (WriteModeCheck.operators(write.inputQuery).nonEmpty) check(filters)
        RecursionWriteCheck(write, recursions)
        MetadataWriteCheck(write)
        // A frame that is used twice is one source.
        val names = watermarks.distinct.map(_._2)
        names.diff(names.distinct).headOption.foreach(name => throw Errors.watermarkNameExists(name))
        checkOperators(write)
        synced.diff(synced.distinct).headOption.foreach(name => throw SyncErrors.nameExists(name))
      case _ =>
    }
    plan
  }

  /** A server takes two sources of one name for one, and a host that one of them has read for read. */
  private def checkOperators(write: WriteToStreamStatement): Unit = {
    val reporting =
      write.inputQuery.collect { case p: HostProgress => p.settings }.distinctBy(_.name).flatMap(_.server)
    reporting.zipWithIndex.foreach { case (one, i) =>
      if (reporting.take(i).exists(other => other.isBeside(one) && other.operator == one.operator))
        throw WatermarkErrors.operatorExists(one.operator, one.app)
    }
  }

  private def check(filters: Seq[String]): Unit = {
    filters.diff(filters.distinct).headOption.foreach(name => throw Errors.replayNameExists(name))
    TailraceConf.check(SparkPlans.activeSetting)
  }
}
