package io.tailrace.testkit

import scala.collection.mutable.ArrayBuffer

/** A row of either side of a synced join, times in microseconds. */
final case class SyncRow(key: Option[String], time: Option[Long], id: Int)

/** What came out: the key, the ids of the left and the right row, and the mark. */
final case class SyncOut(
    key: Option[String],
    left: Option[Int],
    right: Option[Int],
    mark: Option[String]
)

/** The synced join by brute force, a partition and a batch at a time. Shares no code with the engine.
  *
  * @param onDuplicate what is done about duplicates: "emit", "drop" or "mark"
  * @param oneToOne  whether a left row that waits comes out as soon as its right row is there
  */
final class SyncOracle(
    window: Long,
    syncDelay: Long,
    onDuplicate: String,
    emitRight: Boolean,
    oneToOne: Boolean = false
) {
  private val reach = Math.min(window, syncDelay)

  private val lefts = new ArrayBuffer[(SyncRow, Int)]
  private val rights = new ArrayBuffer[(SyncRow, Int)]
  private var arrivals = 0
  private var releasedBefore: Option[Long] = None
  private var expiredBefore: Option[Long] = None

  var matched, unmatchedLeft, unmatchedRight, duplicateLeft, duplicateRight, lateLeft, nullRight, tooFar = 0L

  def bufferedLeft: Seq[SyncRow] = lefts.map(_._1).toSeq

  /** Rows that may still be joined. */
  def bufferedRight: Seq[SyncRow] = rights.map(_._1).toSeq

  private def mark(duplicate: Boolean) = Option.when(onDuplicate == "mark" && duplicate)("duplicate")

  private def numbered(row: SyncRow): (SyncRow, Int) = {
    arrivals += 1
    row -> arrivals
  }

  /** Rows of one time stand in the order of their bytes, little-endian, which end with the id. */
  private def order(row: SyncRow): (Long, Long) =
    (row.time.get, Integer.toUnsignedLong(Integer.reverseBytes(row.id)))

  /** @param release left rows before it are released
    * @return left rows and what became of them; right rows that come out because nobody has joined them
    */
  def batch(
      release: Option[Long],
      leftLow: Option[Long],
      left: Seq[SyncRow],
      right: Seq[SyncRow]
  ): (Seq[SyncOut], Seq[SyncOut]) = {
    val out = new ArrayBuffer[SyncOut]
    val (alone, usual) = left.partition(l => l.key.isEmpty || l.time.isEmpty)
    unmatchedLeft += alone.size
    out ++= alone.map(l => SyncOut(l.key, Some(l.id), None, mark(false)))
    lateLeft += usual.count(l => releasedBefore.exists(l.time.get < _))
    lefts ++= usual.map(numbered)
    val (usable, unusable) = right.partition(r => r.key.isDefined && r.time.isDefined)
    nullRight += unusable.size
    rights ++= usable.map(numbered)

    val now = (releasedBefore ++ release).maxOption
    def isDue(left: SyncRow) = now.exists(left.time.get < _)
    val asked = lefts.toSeq.filter(l => oneToOne || isDue(l._1))
    lefts.filterInPlace(l => !isDue(l._1))
    asked.groupBy(_._1.key).values.foreach { rows =>
      rows.map(_._1).sortBy(order).zipWithIndex.foreach { case (left, n) =>
        val ofKey = rights.filter(_._1.key == left.key)
        def apart(right: SyncRow) = right.time.get - left.time.get
        val found = ofKey
          .filter(r => apart(r._1) >= -window && apart(r._1) <= reach)
          .sortBy(r => order(r._1))
          .toSeq
        rights --= found
        val waits = found.isEmpty && !isDue(left)
        if (found.nonEmpty) {
          matched += 1
          lefts.filterInPlace(_._1 ne left)
        } else if (waits) ()
        else if (n > 0) duplicateLeft += 1
        else {
          unmatchedLeft += 1
          if (ofKey.nonEmpty) tooFar += 1
        }
        duplicateRight += Math.max(0, found.size - 1)
        val isDuplicate = found.isEmpty && n > 0
        if (!waits && (!isDuplicate || onDuplicate != "drop"))
          out += SyncOut(left.key, Some(left.id), found.headOption.map(_._1.id), mark(isDuplicate))
        if (onDuplicate == "mark")
          out ++= found.drop(1).map(r => SyncOut(r._1.key, None, Some(r._1.id), mark(true)))
      }
    }
    val low = for (a <- now; b <- leftLow) yield Math.min(a, b) - reach
    val limit = (expiredBefore ++ low).maxOption
    val gone = rights.filter(r => limit.exists(r._1.time.get + window < _)).toSeq
    rights --= gone
    unmatchedRight += gone.size
    releasedBefore = now
    expiredBefore = limit
    val rightOut = if (emitRight) gone.map(r => SyncOut(r._1.key, None, Some(r._1.id), mark(false))) else Nil
    (out.toSeq, rightOut)
  }
}
