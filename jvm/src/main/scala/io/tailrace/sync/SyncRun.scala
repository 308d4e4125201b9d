package io.tailrace.sync

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.util.CollectionAccumulator

/** The progress of a synced join in one start of its query, on the driver. */
trait SyncRun {

  /** What a batch is judged by. The same whenever the batch runs. */
  def times(batch: Long): SyncTimes

  /** What the batch before it was judged by: what comes out later was not released by then. Unknown where nobody knows. */
  def timesBefore(batch: Long): SyncTimes

  /** Whether a batch without data is needed to find out that a partition has stalled: while all others are held back, none
    * has data.
    *
    * @param nowMs by the clock of [[io.tailrace.driver.Silence]]
    */
  def needsBatch(nowMs: Long): Boolean

  /** What state partitions of the batch tell what they hold. */
  def held(batch: Long): CollectionAccumulator[SyncHeld]

  /** What the batch after the last one that has ended will be judged by. */
  def next: SyncTimes
}

object SyncRun {

  /** Of the run that is planned or executed in this thread. */
  def of(session: SparkSession, settings: SyncSettings): SyncRun = SyncRuns.of(session, settings)
}
