package io.tailrace.erase

import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

/** The result of an erasure, or of a dry run.
  *
  * @param version   of the rewritten state
  * @param rows      of the remaining state
  * @param bytes     of its files
  * @param untouched the parts that may still have rows of the subjects, in words
  */
final case class EraseReport(
    checkpoint: String,
    version: Long,
    dryRun: Boolean,
    sides: Seq[ErasedSide],
    rows: Long,
    bytes: Long,
    untouched: Seq[String]
) {

  /** For Python. */
  def json: String = {
    implicit val formats: Formats = Serialization.formats(NoTypeHints)
    Serialization.write(this)
  }
}

/** The rows of one side of a join.
  *
  * @param name    the operator's, in the query's progress
  * @param side    "left", "right", or "matches": right rows that eager matching has found for buffered left rows
  * @param applies whether all columns of the condition are there; then `erased` is the number of rows that fulfil it
  */
final case class ErasedSide(operator: Long, name: String, side: String, applies: Boolean, erased: Long)
