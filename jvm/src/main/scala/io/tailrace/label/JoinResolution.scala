package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.types._

import io.tailrace.common.Mark
import io.tailrace.join.{JoinColumns, JoinErrors, JoinSides}
import io.tailrace.plan.{Columns, OwnColumns}

/** Finds the columns that the arguments name, and checks what can be checked before a query runs.
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
      if (left.isStreaming) throw JoinErrors.mixedBatchAndStream("left", "right")
      else throw JoinErrors.mixedBatchAndStream("right", "left")
    }
    val sides = new JoinSides(JoinOptions.arguments, left, right, sameName)
    sides.withWiderKeys(on, settings.marksLate)(resolve(_, on, options, settings))
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
      checkWatermark(side, sides, time)
    }
    val payload = JoinColumns.payload(sides.right.output, rightKeys)
    val added = addedColumns(sides, settings, options.into, payload)
    val paired = LabelJoin.paired(payload, rightTime, settings)
    OwnColumns.renewable(
      LabelJoin(sides.left, sides.right, leftKeys, rightKeys, leftTime, rightTime, settings, paired, added)
    )
  }

  private def checkWatermark(side: String, sides: JoinSides, column: Attribute): Unit = {
    val plan = sides.side(side)
    val key = EventTimeWatermark.delayKey
    // Spark supports no watermarks on them.
    if (plan.isStreaming && column.dataType == TimestampNTZType)
      throw sides.columns(side).wrongType(s"${side}_time", column, "TIMESTAMP")
    if (plan.isStreaming && !column.metadata.contains(key)) {
      throw JoinErrors.watermarkMissing(
        side,
        column.name,
        plan.output.find(_.metadata.contains(key)).map(_.name)
      )
    }
  }

  private def addedColumns(
      sides: JoinSides,
      settings: JoinSettings,
      into: String,
      payload: Seq[Attribute]
  ): Seq[Attribute] = {
    val leftColumns = sides.columns("left")
    def checkAdded(columns: Columns)(a: Attribute): Unit = columns.checkAdded(a.name, Columns.rename(a.name))
    val marks = if (settings.marksLate) Seq(Mark.attribute()) else Nil
    // A column beside the left columns must not have the name of one of them: users could select neither.
    if (settings.isGrouped) {
      if (payload.isEmpty) throw JoinErrors.labelEmpty(into)
      val element = StructType(payload.map(a => StructField(a.name, a.dataType, a.nullable)))
      val group = AttributeReference(into, ArrayType(element, containsNull = false), nullable = false)()
      val truncated = settings.maxMatches.toSeq.map { _ =>
        AttributeReference(JoinSettings.truncatedColumn(into), BooleanType, nullable = false)()
      }
      val another = s"Choose another name than '$into' for `into`."
      (group +: truncated).foreach(a => leftColumns.checkAdded(a.name, another))
      marks.foreach { a =>
        checkAdded(leftColumns)(a)
        if (sameName(into, a.name))
          throw JoinOptions.arguments.invalid("into", into, "a name other than _mark")
      }
      (group +: truncated) ++ marks
    } else {
      (payload ++ marks).foreach(checkAdded(leftColumns))
      marks.foreach(checkAdded(sides.columns("right")))
      marks
    }
  }
}
