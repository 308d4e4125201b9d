package io.tailrace.erase

import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

/** What an erasure has done, or would do.
  *
  * @param version   of the state that has been written anew
  * @param rows      of the state that is left
  * @param bytes     of its files
  * @param untouched what may have rows of the subjects still, in words
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
  * @param side    "left", "right", or "matches": right rows that eager matching has found for left rows that wait
  * @param applies whether all columns of the condition are there; then `erased` says how many rows fulfilled it
  */
final case class ErasedSide(operator: Long, name: String, side: String, applies: Boolean, erased: Long)
