package io.tailrace.testkit

import java.sql.Timestamp

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Row

/** A left row that came out of an as-of join, with the id of its right row. */
final case class Looked(key: String, id: Int, found: Option[Int])

object Looked {
  def of(row: Row): Looked = {
    val found = Option(row.getAs[Row]("features")).map(_.getAs[Int]("rid"))
    Looked(row.getAs[String]("k"), row.getAs[Int]("id"), found)
  }

  /** Equal for equal multisets of rows. */
  def sorted(rows: Iterable[Looked]): Seq[Looked] = rows.toSeq.sortBy(_.toString)
}

/** The as-of join by brute force, with Spark's watermark: see [[JoinOracle]]. Shares no code with the engine.
  *
  * @param delay  in microseconds; so is `maxAge`
  * @param delays of the left and the right watermark, in milliseconds
  * @param initial right rows that were there before all others
  */
final class AsOfOracle(
    delay: Long,
    maxAge: Option[Long],
    delays: (Long, Long) = (0L, 0L),
    initial: Seq[Engaged] = Nil
) {
  private val rights = ArrayBuffer.from(initial.filter(hasKeyAndTime))
  private val waiting = new ArrayBuffer[Served]
  private var newest: (Option[Long], Option[Long]) = (None, None)
  private var lateMs = 0L
  private var watermarkMs = 0L

  var lateLeft = 0L
  var lateRight = 0L

  /** What the batch with these rows gives, then the batch without rows that follows if the watermark has moved. */
  def step(served: Seq[Served], engaged: Seq[Engaged]): Seq[Seq[Looked]] = {
    val first = batch(served, engaged)
    if (watermarkMs > lateMs) Seq(first, batch(Nil, Nil)) else Seq(first)
  }

  /** Spark keeps the watermark in the checkpoint, and each side's part of it only as long as a query runs. */
  def restart(): Unit = newest = (None, None)

  private def hasKeyAndTime(right: Engaged): Boolean = right.k != null && right.rt != null

  private def isLate(t: Timestamp): Boolean = lateMs > 0 && Times.microsOf(t) <= lateMs * 1000

  private def batch(served: Seq[Served], engaged: Seq[Engaged]): Seq[Looked] = {
    val (noTime, timed) = served.partition(_.t == null)
    val (lateL, inTime) = timed.partition(l => isLate(l.t))
    val (lateR, usable) = engaged.filter(hasKeyAndTime).partition(r => isLate(r.rt))
    lateLeft += lateL.size
    lateRight += lateR.size
    rights ++= usable
    waiting ++= inTime
    val (complete, rest) =
      waiting.toSeq.partition(l => watermarkMs > 0 && Times.microsOf(l.t) - delay <= watermarkMs * 1000)
    waiting.clear()
    waiting ++= rest
    advance(served.map(_.t), engaged.map(_.rt))
    Looked.sorted(noTime.map(l => Looked(l.k, l.id, None)) ++ complete.map(look))
  }

  private def look(l: Served): Looked = {
    val point = Times.microsOf(l.t) - delay
    def isFound(r: Engaged) = {
      val time = Times.microsOf(r.rt)
      r.k == l.k && time <= point && maxAge.forall(time >= point - _)
    }
    Looked(l.k, l.id, rights.toSeq.filter(isFound).sortWith(ChosenMatches.goesBefore).lastOption.map(_.rid))
  }

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
