package io.tailrace.join

import io.tailrace.common.Errors.refuse

/** What a label join's columns can be refused for, besides what [[Errors]] has. */
object JoinErrors {

  /** @param parent the column of that side whose field `column` names */
  def columnNested(side: String, argument: String, column: String, parent: String): Throwable =
    refuse(
      "TAILRACE_JOIN_COLUMN_NESTED",
      "side" -> side,
      "argument" -> argument,
      "column" -> column,
      "parent" -> parent,
      "name" -> column.replace('.', '_')
    )

  def labelEmpty(into: String): Throwable = refuse("TAILRACE_JOIN_LABEL_EMPTY", "into" -> into)
}
