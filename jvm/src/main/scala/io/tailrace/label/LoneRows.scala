package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions._

import io.tailrace.common.Mark
import io.tailrace.join.JoinColumns

/** How a row comes out that no row of the other side goes with. */
private[label] final class LoneRows(columns: JoinColumns, settings: JoinSettings) {
  import columns.{added, leftKeys, payload, rightKeys}

  /** A left row that comes out by itself: with an empty group, or with nulls for the right row of a pair. */
  def left(mark: Literal): UnsafeProjection =
    UnsafeProjection.create(
      columns.left ++ rest(mark, payload.map(a => Literal(null, a.dataType)), Nil),
      columns.left
    )

  /** A right row that comes out by itself: the left columns null but the keys. */
  def right: UnsafeProjection = {
    val nulls = columns.left.map { a =>
      val key = leftKeys.indexWhere(_.exprId == a.exprId)
      if (key >= 0) rightKeys(key) else Literal(null, a.dataType)
    }
    val element = CreateNamedStruct(payload.flatMap(a => Seq(Literal(a.name), a)))
    UnsafeProjection.create(
      nulls ++ rest(Literal(Mark.LateRight.reason), payload, Seq(element)),
      columns.right
    )
  }

  private def rest(
      mark: Literal,
      pairColumns: Seq[Expression],
      elements: Seq[Expression]
  ): Seq[Expression] = {
    val marks = if (settings.marksLate) Seq(mark) else Nil
    if (!settings.isGrouped) pairColumns ++ marks
    else {
      val group = if (elements.isEmpty) Literal.create(Nil, added.head.dataType) else CreateArray(elements)
      (group +: settings.maxMatches.toSeq.map(_ => Literal(false))) ++ marks
    }
  }
}
