package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import io.tailrace.join.{Pass, StoredJoinContext}
import io.tailrace.state.{LiveSection, RowBuffer, StoreKind, TailraceStateStore}

/** A micro-batch of a label join in one partition: up to which times its left rows are decided, closed and emitted, and
  * what its parts share.
  */
private[label] final class LabelBatch(
    val context: StoredJoinContext,
    val settings: JoinSettings,
    val times: LabelJoinTimes
) extends AutoCloseable {
  import context.store

  val window: JoinWindow = settings.window

  /** Left rows up to this time have all matches that they get. Where matches are found on arrival, those whose
    * window had closed before it grew keep what they have: right rows that the longer one has may have been evicted.
    */
  val decidedThrough: Long = {
    val watermarkBefore = Math.max(times.lateWatermark, store.operatorTime)
    val grown = times.earlier.filter(_ => settings.matchesOnArrival).map(_.leftExpiry(watermarkBefore))
    (grown ++ Seq(store.expiredThrough)).max
  }

  /** Left rows up to this time get no row of this batch: when it began, their windows had closed. Some of them may
    * wait for a release step. Rows that aren't late match none of them.
    */
  val closedThrough: Long = Math.max(decidedThrough, window.leftExpiry(times.lateWatermark))

  /** Left rows up to this time have their window closed by the watermark, and their release step has begun. */
  private val dueThrough: Long = {
    val expiry = window.leftExpiry(times.watermark)
    // All rows of a partition were in this one when the batch began.
    val partition = store.id.partitionId % times.partitions
    val due = times.release.through(store.expiredThrough, expiry, partition, times.partitions)
    Math.max(due, decidedThrough)
  }

  /** Left rows up to this time are emitted in this micro-batch, or have been emitted. */
  val through: Long = (Seq(dueThrough) ++ times.closed).max

  val closing = new ClosedRows(dueThrough, context.metric)
  val amendments: Option[Amendments] = settings.amendFor.map(_ => new Amendments(context, settings, times))

  /** The number of right rows that were taken though they are late, when both inputs have been read. */
  var lateRightsTaken = 0L

  /** For the next batch: right rows up to there have been evicted. */
  def keepWatermark(): Unit = store.setOperatorTime(Math.max(store.operatorTime, times.watermark))

  /** @param name of a metric */
  def countLate(name: String, rows: Long): Unit = {
    context.metric(name) += rows
    if (!settings.marksLate) context.metric("numRowsDroppedByWatermark") += rows
  }

  override def close(): Unit = amendments.foreach(_.close())
}

/** A strategy for the matches of a micro-batch: what of its rows is written, and which passes find the rows that are
  * emitted.
  */
private[label] trait LabelMatching extends AutoCloseable {

  /** Writes rows of the micro-batch into the state. It is called several times if they are many. */
  def write(left: RowBuffer, right: RowBuffer): Unit

  /** The passes after the whole micro-batch has been written. None has begun when this returns. */
  def passes: Seq[() => Pass]

  /** See [[io.tailrace.join.StoredJoinTask]]. */
  def expiryNanos: Long
  def expire(): Long
}

/** The sections that a micro-batch has written, by side: a run for each part of it. */
private[label] final class WrittenSides(
    store: TailraceStateStore,
    leftKind: StoreKind,
    rightKind: StoreKind,
    bucketWidth: Long
) {
  private val all = new ArrayBuffer[LiveSection]

  def left: Seq[LiveSection] = all.filter(_.section.kind == leftKind).toSeq
  def right: Seq[LiveSection] = all.filter(_.section.kind == rightKind).toSeq

  def add(left: RowBuffer, right: RowBuffer): Unit =
    all ++= store.addRun(bucketWidth, leftKind -> left, rightKind -> right)
}
