package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, UnsafeProjection}
import org.apache.spark.sql.types.{BooleanType, StringType}

import io.tailrace.common.Mark
import io.tailrace.join.JoinColumns

/** Makes the rows that are emitted without a row of the other side. */
private[label] final class LoneRows(columns: JoinColumns, settings: JoinSettings) {
  import columns.{leftKeys, payload, rightKeys}

  /** A left row that is emitted on its own: with an empty group, or with nulls for the right row of a pair. */
  def left(mark: Literal): UnsafeProjection =
    UnsafeProjection.create(
      columns.left ++ rest(mark, payload.map(a => Literal(null, a.dataType)), settings.form.empty(columns)),
      columns.left
    )

  /** A right row that is emitted on its own: the left columns null but the keys. */
  def right: UnsafeProjection = {
    val nulls = columns.left.map { a =>
      val key = leftKeys.indexWhere(_.exprId == a.exprId)
      if (key >= 0) rightKeys(key) else Literal(null, a.dataType)
    }
    UnsafeProjection.create(
      nulls ++ rest(Literal(Mark.LateRight.reason), payload, settings.form.alone(columns)),
      columns.right
    )
  }

  private def rest(
      mark: Literal,
      pairColumns: Seq[Expression],
      group: => Seq[Expression]
  ): Seq[Expression] = {
    val marks = if (settings.hasMarks) Seq(mark) else Nil
    if (!settings.isGrouped) pairColumns ++ marks
    else {
      val version =
        if (settings.horizons.isEmpty) Nil
        else Seq(Literal(null, StringType), Literal(true), Literal(null, BooleanType))
      group ++ version ++ marks
    }
  }
}
