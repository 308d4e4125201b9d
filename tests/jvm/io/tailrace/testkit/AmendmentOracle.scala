package io.tailrace.testkit

import java.sql.Timestamp

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Row

/** A row of a join that amends, by the ids of the rows that it was made of. An amendment has no id of its left row. */
final case class Amended(
    key: Option[String],
    time: Option[Timestamp],
    id: Option[Int],
    labels: Seq[Int],
    truncated: Option[Boolean],
    mark: Option[String]
)

object Amended {
  def of(row: Row): Amended = {
    def maybe[T](name: String): Option[T] =
      if (!row.schema.fieldNames.contains(name) || row.isNullAt(row.fieldIndex(name))) None
      else Some(row.getAs[T](name))
    Amended(
      maybe[String]("k"),
      maybe[Timestamp]("t"),
      maybe[Int]("id"),
      row.getSeq[Row](row.fieldIndex("labels")).map(_.getAs[Int]("rid")),
      maybe[Boolean]("labels_truncated"),
      maybe[String]("_mark")
    )
  }

  def sorted(rows: Iterable[Amended]): Seq[Amended] = rows.toSeq.sortBy(_.toString)
}

/** A label join with `amend_for` by brute force: every row is kept, and each left row that has come out looks at all of
  * them in each batch. The watermark is that of [[JoinOracle]], and stays where it is when silence lets rows out.
  *
  * @param amendFor microseconds
  */
final class AmendmentOracle(
    before: Long,
    after: Long,
    amendFor: Long,
    matching: String,
    maxMatches: Option[Int],
    marksLate: Boolean,
    delays: (Long, Long)
) {
  import ChosenMatches.Group

  // Each with the watermark that it was behind when it came.
  private val labels = new ArrayBuffer[(Engaged, Option[Long])]
  private var waiting = Seq.empty[Served]
  private var out = Seq.empty[(Served, Group)]
  private val clock = new JoinOracle(before, after, grouped = true, delays = delays)
  // Left rows up to there have come out by silence.
  private var closed = Long.MinValue

  var amendments = 0L
  var taken = 0L
  var lateRight = 0L

  def restart(): Unit = clock.restart()

  /** The last group of each left row that has come out by the watermark, by key and time. */
  def lastGroups: Map[(String, Timestamp, Int), Seq[Int]] =
    out.map { case (l, group) => (l.k, l.t, l.id) -> group._1.map(_.rid) }.toMap

  /** What the batch with these rows gives, then the batch without rows that follows if the watermark has moved. */
  def step(served: Seq[Served], engaged: Seq[Engaged]): Seq[Seq[Amended]] = {
    val (late, now) = clock.watermarks
    val first = batch(served, engaged, late, now)
    clock.step(served, engaged)
    val next = clock.watermarks._2
    if (next > now) Seq(first, batch(Nil, Nil, now, next)) else Seq(first)
  }

  /** The rows that come out when the query has had no input for long: all that wait. */
  def silence(): Seq[Amended] = {
    closed = (waiting.map(l => Times.microsOf(l.t)) :+ closed).max
    val now = clock.watermarks._2
    batch(Nil, Nil, now, now)
  }

  private def batch(served: Seq[Served], engaged: Seq[Engaged], late: Long, now: Long): Seq[Amended] = {
    val rows = new ArrayBuffer[Amended]
    def isLate(time: Long) = late > 0 && time <= late
    def isClosed(time: Long) = time <= closed
    def flag(group: Group) = maxMatches.map(_ => group._2)
    def alone(key: String, time: Option[Timestamp], id: Option[Int], ids: Seq[Int], mark: Option[String]) =
      Amended(Option(key), time, id, ids, maxMatches.map(_ => false), mark)
    val (timeless, timed) = served.partition(_.t == null)
    rows ++= timeless.map(l => alone(l.k, None, Some(l.id), Nil, None))
    val (lateLefts, lefts) =
      timed.partition(l => isLate(Times.microsOf(l.t) + after) || isClosed(Times.microsOf(l.t)))
    if (marksLate) rows ++= lateLefts.map(l => alone(l.k, Some(l.t), Some(l.id), Nil, Some("late_left")))
    engaged.filter(r => r.k != null && r.rt != null).foreach { r =>
      val time = Times.microsOf(r.rt)
      if (!isLate(time)) labels += (r -> None)
      else if (time + before > late - after - amendFor) {
        taken += 1
        labels += (r -> Some(late))
      } else {
        lateRight += 1
        if (marksLate) rows += alone(r.k, None, None, Seq(r.rid), Some("late_right"))
      }
    }
    // What has come out of the batches before.
    out = out.map { case (left, had) =>
      val group = groupOf(left)
      if (group != had) {
        amendments += 1
        rows += Amended(
          Some(left.k),
          Some(left.t),
          None,
          group._1.map(_.rid),
          flag(group),
          Some("amended")
        )
      }
      left -> group
    }
    val (expired, rest) =
      (waiting ++ lefts).partition { l =>
        now > 0 && Times.microsOf(l.t) + after <= now || isClosed(Times.microsOf(l.t))
      }
    waiting = rest
    out ++= expired.map { left =>
      val group = groupOf(left)
      rows += Amended(Option(left.k), Some(left.t), Some(left.id), group._1.map(_.rid), flag(group), None)
      left -> group
    }
    Amended.sorted(rows)
  }

  private def groupOf(left: Served): Group = {
    val time = Times.microsOf(left.t)
    def isIn(r: Engaged, behind: Option[Long]): Boolean = {
      val distance = Times.microsOf(r.rt) - time
      left.k != null && left.k == r.k && distance >= -before && distance <= after &&
      behind.forall(_ < time + after + amendFor)
    }
    val found = labels.toSeq.collect {
      case (r, behind) if isIn(r, behind) => r
    }
    ChosenMatches.of(left, found, matching, maxMatches)
  }
}
