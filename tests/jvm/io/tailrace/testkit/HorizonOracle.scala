package io.tailrace.testkit

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Row

/** A version of a left row, by the ids of the rows that it was made of. */
final case class Version(
    id: Int,
    horizon: Option[String],
    labels: Seq[Int],
    truncated: Option[Boolean],
    isFinal: Boolean,
    isChanged: Option[Boolean],
    mark: Option[String]
)

object Version {
  def of(row: Row): Version = {
    def maybe[T](name: String): Option[T] =
      if (row.schema.fieldNames.contains(name)) Option(row.getAs[T](name)) else None
    Version(
      maybe[Int]("id").getOrElse(-1),
      maybe[String]("horizon"),
      row.getSeq[Row](row.fieldIndex("labels")).map(_.getAs[Int]("rid")),
      maybe[Boolean]("labels_truncated"),
      row.getAs[Boolean]("final"),
      maybe[Boolean]("changed"),
      maybe[String]("_mark")
    )
  }

  def sorted(versions: Iterable[Version]): Seq[Version] = versions.toSeq.sortBy(_.toString)
}

/** The versions of a label join by brute force: every row is kept, and each version looks at all of them. The watermark is
  * that of [[JoinOracle]], which says what is late. A version has the rows that had come when the watermark passed its
  * horizon.
  *
  * @param ends  of the horizons, microseconds, the last one is the window's
  * @param words of them
  */
final class HorizonOracle(
    before: Long,
    ends: Seq[Long],
    words: Seq[String],
    emit: String,
    matching: String,
    maxMatches: Option[Int],
    marksLate: Boolean,
    lateLabels: Boolean,
    lateLefts: Boolean,
    delays: (Long, Long)
) {

  import ChosenMatches.Group

  // Each with the watermark that it was behind when it came.
  private val labels = new ArrayBuffer[(Engaged, Option[Long])]
  private var waiting = Seq.empty[(Served, Int, Option[Group])]
  private val clock =
    new JoinOracle(before, ends.last, grouped = true, delays = delays, lateLabels = lateLabels)

  def restart(): Unit = clock.restart()

  /** What the batch with these rows gives, then the batch without rows that follows if the watermark has moved. */
  def step(served: Seq[Served], engaged: Seq[Engaged]): Seq[Seq[Version]] = {
    val (late, now) = clock.watermarks
    val first = batch(served, engaged, late, now)
    clock.step(served, engaged)
    val next = clock.watermarks._2
    if (next > now) Seq(first, batch(Nil, Nil, now, next)) else Seq(first)
  }

  private def batch(served: Seq[Served], engaged: Seq[Engaged], late: Long, now: Long): Seq[Version] = {
    val out = new ArrayBuffer[Version]
    def isLate(time: Long) = late > 0 && time <= late
    def alone(id: Int, labels: Seq[Int], mark: Option[String]) =
      Version(id, None, labels, maxMatches.map(_ => false), isFinal = true, None, mark)
    val (timeless, timed) = served.partition(_.t == null)
    out ++= timeless.map(l => alone(l.id, Nil, None))
    val (missed, lefts) =
      timed.partition(l => isLate(Times.microsOf(l.t) + (if (lateLefts) ends.head else 0)))
    if (marksLate) out ++= missed.map(l => alone(l.id, Nil, Some("late_left")))
    engaged.filter(r => r.k != null && r.rt != null).foreach { r =>
      val time = Times.microsOf(r.rt)
      if (!isLate(time)) labels += (r -> None)
      else if (lateLabels && time + before > late - ends.last) labels += (r -> Some(late))
      else if (marksLate) out += alone(-1, Seq(r.rid), Some("late_right"))
    }
    waiting = (waiting ++ lefts.map((_, 0, None))).flatMap { case (left, done, group) =>
      var (next, last) = (done, group)
      while (next < ends.size && now > 0 && Times.microsOf(left.t) + ends(next) <= now) {
        val found = groupOf(left, ends(next))
        val isChanged = last.map(_ != found)
        val isFinal = next == ends.size - 1
        val comesOut = last.isEmpty || (emit match {
          case "changes" => isFinal || isChanged.get
          case "late_positives" => last.get._1.isEmpty && found._1.nonEmpty
          case _ => true
        })
        if (comesOut) {
          val flag = maxMatches.map(_ => found._2)
          out += Version(left.id, Some(words(next)), found._1.map(_.rid), flag, isFinal, isChanged, None)
        }
        next += 1
        last = Some(found)
      }
      if (next == ends.size) None else Some((left, next, last))
    }
    Version.sorted(out)
  }

  private def groupOf(left: Served, end: Long): Group = {
    val time = Times.microsOf(left.t)
    def isIn(r: Engaged, behind: Option[Long]): Boolean = {
      val distance = Times.microsOf(r.rt) - time
      left.k != null && left.k == r.k && distance >= -before && distance <= end && behind.forall(
        _ < time + end
      )
    }
    val found = labels.toSeq.collect {
      case (r, behind) if isIn(r, behind) => r
    }
    ChosenMatches.of(left, found, matching, maxMatches)
  }
}
