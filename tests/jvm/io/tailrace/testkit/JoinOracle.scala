package io.tailrace.testkit

import java.sql.Timestamp

import scala.collection.mutable.ArrayBuffer

/** The label join by brute force, with Spark's watermark: every row that was ever taken in is kept and compared with
  * every other. Shares no code with the engine.
  *
  * The watermark that a batch expires rows with comes from the batches before it; rows are late by the one before that.
  * It is the least of both sides' newest time minus their delay, zero (none) as long as a side has had no row since the
  * query was started, and never goes back.
  *
  * A late right row is taken as long as a left row whose window is open could match it. A left row waits as long as its
  * window is open. A late left row is taken as long as its window is open, if the join does that.
  *
  * @param delays     of the left and the right watermark, in milliseconds
  * @param lateLabels whether late right rows are taken
  * @param lateLefts  whether late left rows are taken
  * @param orphans    whether right rows that are in no group come out
  * @param oneToOne whether paired rows are gone
  * @param decided    whether a left row is emitted when the watermark has passed its first match
  */
final class JoinOracle(
    before: Long,
    after: Long,
    grouped: Boolean,
    matching: String = "all",
    maxMatches: Option[Int] = None,
    marksLate: Boolean = false,
    delays: (Long, Long) = (0L, 0L),
    lateLabels: Boolean = true,
    oneToOne: Boolean = false,
    decided: Boolean = false,
    lateLefts: Boolean = true,
    orphans: Boolean = false
) {
  private val lefts = new ArrayBuffer[Served]
  private val rights = new ArrayBuffer[Engaged]
  private val waiting = new ArrayBuffer[Served]
  // Right rows that were in no group so far.
  private var alone = Seq.empty[Engaged]
  private var newest: (Option[Long], Option[Long]) = (None, None)
  private var lateMs = 0L
  private var watermarkMs = 0L

  var lateLeft = 0L
  var lateRight = 0L
  var lateTaken = 0L
  var lateLeftTaken = 0L
  var nullRight = 0L
  var matchesDropped = 0L
  var unmatched = 0L

  /** What the batch with these rows gives, then the batch without rows that follows if the watermark has moved. */
  def step(served: Seq[Served], engaged: Seq[Engaged]): Seq[Seq[Emitted]] = {
    val first = batch(served, engaged)
    if (watermarkMs > lateMs) Seq(first, batch(Nil, Nil)) else Seq(first)
  }

  /** Spark keeps the watermark in the checkpoint, and each side's part of it only as long as a query runs. */
  def restart(): Unit = newest = (None, None)

  /** That by which rows are late, and that by which they expire, of the next batch; microseconds. */
  def watermarks: (Long, Long) = (lateMs * 1000, watermarkMs * 1000)

  private def takesLateLefts: Boolean = lateLefts && grouped && !decided

  private def isLate(t: Timestamp): Boolean = lateMs > 0 && Times.microsOf(t) <= lateMs * 1000

  private def isOpen(l: Served): Boolean = lateMs == 0 || Times.microsOf(l.t) + after > lateMs * 1000

  /** By its time, whether a left row with an open window could match it. */
  private def isUseful(r: Engaged): Boolean =
    lateLabels && Times.microsOf(r.rt) + before > lateMs * 1000 - after

  private def notTruncated: Option[Boolean] = maxMatches.map(_ => false).filter(_ => grouped)

  private def batch(served: Seq[Served], engaged: Seq[Engaged]): Seq[Emitted] = {
    val out = new ArrayBuffer[Emitted]
    val (noTime, timed) = served.partition(_.t == null)
    if (grouped) out ++= noTime.map(l => Emitted(l.k, Some(l.id), Nil, notTruncated))
    val (late, inTime) = timed.partition(l => isLate(l.t) && !(takesLateLefts && isOpen(l)))
    lateLeft += late.size
    lateLeftTaken += inTime.count(l => isLate(l.t))
    if (marksLate) out ++= late.map(l => Emitted(l.k, Some(l.id), Nil, notTruncated, Some("late_left")))
    val (unusable, usable) = engaged.partition(r => r.k == null || r.rt == null)
    nullRight += unusable.size
    val (lateR, takenR) = usable.partition(r => isLate(r.rt) && !isUseful(r))
    lateRight += lateR.size
    lateTaken += takenR.count(r => isLate(r.rt))
    def byItself(r: Engaged, mark: String) = Emitted(r.k, None, Seq(r.rid), notTruncated, Some(mark))
    if (marksLate || orphans) out ++= lateR.map(byItself(_, "late_right"))
    if (orphans) out ++= unusable.map(byItself(_, "null_right"))

    if (grouped) {
      rights ++= takenR
      waiting ++= inTime
      val (expired, rest) =
        waiting.toSeq.partition(l => isClosed(l) || decided && isDecided(l))
      waiting.clear()
      waiting ++= rest
      out ++= expired.map(group)
      if (orphans) {
        val (over, open) =
          (alone ++ takenR).filterNot(r => expired.exists(matches(_, r))).partition(isOver)
        alone = open
        unmatched += over.size
        out ++= over.map(byItself(_, "unmatched_right"))
      }
    } else if (oneToOne) {
      val pairs = oneToOne(inTime, takenR)
      out ++= pairs.map { case (l, r) => Emitted(l.k, Some(l.id), Seq(r.rid), None) }
    } else {
      val pairs = (for (l <- inTime; r <- rights ++ takenR if matches(l, r)) yield (l, r)) ++
        (for (l <- lefts if isOpen(l); r <- takenR if matches(l, r)) yield (l, r))
      lefts ++= inTime
      rights ++= takenR
      out ++= pairs.map { case (l, r) => Emitted(l.k, Some(l.id), Seq(r.rid), None) }
    }
    advance(served.map(_.t), engaged.map(_.rt))
    Emitted.sorted(out)
  }

  private def isClosed(l: Served): Boolean =
    watermarkMs > 0 && Times.microsOf(l.t) + after <= watermarkMs * 1000

  /** The windows of all left rows that it may match have closed. */
  private def isOver(r: Engaged): Boolean =
    watermarkMs > 0 && Times.microsOf(r.rt) + before + after <= watermarkMs * 1000

  private def isDecided(l: Served): Boolean = l.k == null ||
    rights.exists(r => matches(l, r) && watermarkMs > 0 && Times.microsOf(r.rt) <= watermarkMs * 1000)

  /** New left rows take earlier right rows first, then new right rows take left rows, each the earliest that is free. */
  private def oneToOne(served: Seq[Served], engaged: Seq[Engaged]): Seq[(Served, Engaged)] = {
    val pairs = new ArrayBuffer[(Served, Engaged)]
    def free[T <: AnyRef](rows: ArrayBuffer[T], row: T): Unit = rows.remove(rows.indexWhere(_ eq row)): Unit
    def count(all: Int, found: Option[_]): Unit = matchesDropped += all - found.size
    val news = ArrayBuffer.from(served.sortWith(servedBefore))
    val earlierRights = rights.toSeq
    news.toSeq.foreach { l =>
      val found = rights.toSeq.filter(matches(l, _)).sortWith(ChosenMatches.goesBefore)
      count(earlierRights.count(matches(l, _)), found.headOption)
      found.headOption.foreach { r =>
        pairs += l -> r
        free(rights, r)
        free(news, l)
      }
    }
    lefts ++= news
    val come = ArrayBuffer.from(engaged.sortWith(ChosenMatches.goesBefore))
    val openLefts = lefts.toSeq.filter(isOpen)
    come.toSeq.foreach { r =>
      val found = lefts.toSeq.filter(l => isOpen(l) && matches(l, r)).sortWith(servedBefore)
      count(openLefts.count(matches(_, r)), found.headOption)
      found.headOption.foreach { l =>
        pairs += l -> r
        free(lefts, l)
        free(come, r)
      }
    }
    rights ++= come
    pairs.toSeq
  }

  private def matches(l: Served, r: Engaged): Boolean = {
    val distance = Times.microsOf(r.rt) - Times.microsOf(l.t)
    l.k != null && l.k == r.k && distance >= -before && distance <= after
  }

  private def group(l: Served): Emitted = {
    val (kept, isCut) = ChosenMatches.of(l, rights.toSeq.filter(matches(l, _)), matching, maxMatches)
    Emitted(l.k, Some(l.id), kept.map(_.rid), maxMatches.map(_ => isCut))
  }

  private def servedBefore(a: Served, b: Served): Boolean =
    if (a.t != b.t) a.t.before(b.t) else ChosenMatches.idGoesBefore(a.id, b.id)

  private def advance(leftTimes: Seq[Timestamp], rightTimes: Seq[Timestamp]): Unit = {
    // Spark takes a null time for the epoch here.
    def newestOf(times: Seq[Timestamp], soFar: Option[Long]): Option[Long] =
      (times.map(t => if (t == null) 0L else Math.floorDiv(Times.microsOf(t), 1000L)) ++ soFar).maxOption
    newest = (newestOf(leftTimes, newest._1), newestOf(rightTimes, newest._2))
    val parts = Seq(newest._1.map(_ - delays._1), newest._2.map(_ - delays._2)).map(_.getOrElse(0L))
    lateMs = watermarkMs
    watermarkMs = Math.max(watermarkMs, parts.min)
  }
}
