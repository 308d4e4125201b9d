package io.tailrace.api

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types._

import io.tailrace.common.Errors
import io.tailrace.join.{JoinColumns, JoinSettings}
import io.tailrace.plan.LabelJoin
import io.tailrace.state.KeyEncoder

/** Finds the columns that the user named and checks all that can be checked before a query runs.
  *
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[api] final class JoinResolution(
    left: LogicalPlan,
    unalignedRight: LogicalPlan,
    sameName: (String, String) => Boolean
) {
  private val right = JoinResolution.withoutSharedColumns(left, unalignedRight)
  private val sides = Map("left" -> left, "right" -> right)

  def resolve(on: Seq[(String, String)], options: JoinOptions): LabelJoin = {
    val settings = options.settings
    if (on.isEmpty) throw Errors.keysMissing()
    if (left.isStreaming != right.isStreaming) {
      if (left.isStreaming) throw Errors.mixedBatchAndStream("left", "right")
      else throw Errors.mixedBatchAndStream("right", "left")
    }
    val leftKeys = on.map(pair => column("left", "on", pair._1))
    val rightKeys = on.map(pair => column("right", "on", pair._2))
    leftKeys.zip(rightKeys).foreach { case (l, r) => checkKey(l, r) }
    val leftTime = column("left", "left_time", options.leftTime)
    val rightTime = column("right", "right_time", options.rightTime)
    checkTime("left", leftTime)
    checkTime("right", rightTime)
    if (leftTime.dataType != rightTime.dataType) {
      throw Errors.timeTypesDiffer(
        leftTime.name,
        leftTime.dataType.sql,
        rightTime.name,
        rightTime.dataType.sql
      )
    }
    val added = addedColumns(settings, options.into, JoinColumns.payload(right.output, rightKeys))
    LabelJoin(left, right, leftKeys, rightKeys, leftTime, rightTime, settings, added)
  }

  private def column(side: String, argument: String, name: String): Attribute =
    sides(side).output.filter(a => sameName(a.name, name)) match {
      case Seq(one) => one
      case Seq() => throw Errors.columnNotFound(side, argument, name, sides(side).output.map(_.name))
      case _ => throw Errors.columnAmbiguous(side, argument, name)
    }

  private def checkKey(l: Attribute, r: Attribute): Unit = {
    Seq(l, r).foreach { a =>
      KeyEncoder.refusal(a.dataType).foreach {
        case KeyEncoder.Collated => throw Errors.keyCollated(a.name, a.dataType.sql)
        case KeyEncoder.NotOrderable => throw Errors.keyTypeUnsupported(a.name, a.dataType.sql)
      }
    }
    // Nullability inside a type doesn't change what a value is.
    if (!DataTypeUtils.sameType(l.dataType, r.dataType)) {
      throw Errors.keyTypesDiffer(l.name, l.dataType.sql, r.name, r.dataType.sql)
    }
  }

  private def checkTime(side: String, column: Attribute): Unit = {
    column.dataType match {
      case TimestampType | TimestampNTZType =>
      case other => throw Errors.timeType(side, column.name, other.sql)
    }
    val plan = sides(side)
    val key = EventTimeWatermark.delayKey
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

private[api] object JoinResolution {

  /** A frame joined with one that was made of it has the same columns on both sides: gives the right ones new ids. */
  private def withoutSharedColumns(left: LogicalPlan, right: LogicalPlan): LogicalPlan =
    if (left.outputSet.intersect(right.outputSet).isEmpty) right
    else Project(right.output.map(a => Alias(a, a.name)(explicitMetadata = Some(a.metadata))), right)
}
