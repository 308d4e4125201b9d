package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.types._

import io.tailrace.common.Errors
import io.tailrace.join.{JoinColumns, JoinErrors, JoinSides}
import io.tailrace.plan.OwnColumns

/** Finds the columns that the user named and checks all that can be checked before a query runs.
  *
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[tailrace] final class JoinResolution(
    left: LogicalPlan,
    right: LogicalPlan,
    sameName: (String, String) => Boolean
) {

  def resolve(on: Seq[(String, String)], options: JoinOptions): LogicalPlan = {
    val settings = options.settings
    if (left.isStreaming != right.isStreaming) {
      if (left.isStreaming) throw Errors.mixedBatchAndStream("left", "right")
      else throw Errors.mixedBatchAndStream("right", "left")
    }
    val sides = new JoinSides(left, right, sameName)
    sides.withWiderKeys(on, settings.emitLate)(resolve(_, on, options, settings))
  }

  private def resolve(
      sides: JoinSides,
      on: Seq[(String, String)],
      options: JoinOptions,
      settings: JoinSettings
  ): LogicalPlan = {
    val (leftKeys, rightKeys) = sides.keys(on)
    val (leftTime, rightTime) = sides.times(options.leftTime, options.rightTime)
    Seq("left" -> leftTime, "right" -> rightTime).foreach { case (side, time) =>
      checkWatermark(side, sides.side(side), time)
    }
    val payload = JoinColumns.payload(sides.right.output, rightKeys)
    val added = addedColumns(settings, options.into, payload)
    val paired = LabelJoin.paired(payload, rightTime, settings)
    OwnColumns.renewable(
      LabelJoin(sides.left, sides.right, leftKeys, rightKeys, leftTime, rightTime, settings, paired, added)
    )
  }

  private def checkWatermark(side: String, plan: LogicalPlan, column: Attribute): Unit = {
    val key = EventTimeWatermark.delayKey
    // Spark has no watermarks on them.
    if (plan.isStreaming && column.dataType == TimestampNTZType)
      throw Errors.timeType(side, column.name, column.dataType.sql)
    if (plan.isStreaming && !column.metadata.contains(key)) {
      throw Errors.watermarkMissing(side, column.name, plan.output.find(_.metadata.contains(key)).map(_.name))
    }
  }

  private def addedColumns(settings: JoinSettings, into: String, payload: Seq[Attribute]): Seq[Attribute] = {
    val late =
      if (settings.emitLate) Seq(AttributeReference(JoinSettings.LateColumn, BooleanType, nullable = false)())
      else Nil
    val added =
      if (!settings.isGrouped) late
      else {
        if (payload.isEmpty) throw JoinErrors.labelEmpty(into)
        val element = StructType(payload.map(a => StructField(a.name, a.dataType, a.nullable)))
        val group = AttributeReference(into, ArrayType(element, containsNull = false), nullable = false)()
        val truncated = settings.maxMatches.toSeq.map { _ =>
          AttributeReference(JoinSettings.truncatedColumn(into), BooleanType, nullable = false)()
        }
        (group +: truncated) ++ late
      }
    // What comes beside the left columns must not have a name of theirs: nobody could tell the two apart.
    val beside = if (settings.isGrouped) added else payload ++ added
    beside.foreach { a =>
      if (left.output.exists(l => sameName(l.name, a.name))) {
        throw Errors.columnExists(a.name, "left", cure(a, settings, into))
      }
    }
    if (!settings.isGrouped) late.foreach { a =>
      if (payload.exists(p => sameName(p.name, a.name))) {
        throw Errors.columnExists(a.name, "right", cure(a, settings, into))
      }
    }
    added
  }

  private def cure(column: Attribute, settings: JoinSettings, into: String): String =
    if (settings.isGrouped && column.name != JoinSettings.LateColumn)
      s"Choose another name than '$into' for `into`."
    else s"Rename `${column.name}` on one side with withColumnRenamed before the join."
}
