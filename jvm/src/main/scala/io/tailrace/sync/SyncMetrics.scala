package io.tailrace.sync

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.JoinMetrics

/** The synced join's own metrics, by the names under which a query's progress and Spark's UI show them. Of rows that aren't ahead of the clock, all left ones are
  * matched, unmatched, duplicates or held; right rows are matched, unmatched, duplicates, held or without a key.
  */
object SyncMetrics {
  val HeldLeft = "heldLeft"
  val HeldRight = "heldRight"
  val Matched = "matched"
  val UnmatchedLeft = "unmatchedLeft"
  val UnmatchedRight = "unmatchedRight"
  val TooFar = "tooFar"
  val DuplicateLeft = "duplicateLeft"
  val DuplicateRight = "duplicateRight"
  val LateLeft = "lateLeftRows"
  val FutureLeft = "futureLeftRows"
  val FutureRight = "futureRightRows"
  val CarriedRows = "carriedRows"
  val IndexBytes = "indexBytes"
  val IndexesRead = "indexesRead"

  private val counts = Seq(
    HeldLeft -> "left rows that wait for the right stream",
    HeldRight -> "right rows that wait for their left row",
    Matched -> "left rows that came out with their right row",
    UnmatchedLeft -> "left rows that came out without one",
    UnmatchedRight -> "right rows that nobody has joined",
    TooFar -> "left rows that came out without one, though their key had one, too far away in time",
    DuplicateLeft -> "further left rows of an id",
    DuplicateRight -> "further right rows of an id",
    LateLeft -> "left rows that came when their time had been released",
    FutureLeft -> "left rows ahead of the clock that came out by themselves",
    FutureRight -> "right rows ahead of the clock that came out by themselves",
    JoinMetrics.NullKeyRightRows -> "right rows dropped for a null key or time",
    CarriedRows -> "rows of the state that were written again",
    IndexesRead -> "indexes of right rows that were made from the state's files",
    JoinMetrics.LostVersions -> "versions of the state that were lost at a restart, over all partitions",
    JoinMetrics.StateFiles -> "files of the state"
  )
  private val sizes = Seq(
    JoinMetrics.LeftStoreBytes -> "bytes of left rows in the state",
    JoinMetrics.RightStoreBytes -> "bytes of right rows in the state",
    JoinMetrics.JoinedStoreBytes -> "bytes of marks of right rows that have left",
    JoinMetrics.StateFileBytes -> "bytes of the state's files",
    IndexBytes -> "memory of the indexes of right rows, kept between batches"
  )

  val names: Seq[String] = (counts ++ sizes).map(_._1)

  def create(context: SparkContext): Map[String, SQLMetric] = JoinMetrics.create(context, counts, sizes)
}
