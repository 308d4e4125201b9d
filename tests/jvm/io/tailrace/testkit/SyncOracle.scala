package io.tailrace.testkit

import scala.collection.mutable.ArrayBuffer

/** A row of either side of a synced join, times in microseconds. */
final case class SyncRow(key: Option[String], time: Option[Long], id: Int)

/** What came out: the key, the ids of the left and the right row, and the mark of duplicates where they are diverted. */
final case class SyncOut(
    key: Option[String],
    left: Option[Int],
    right: Option[Int],
    duplicate: Option[Boolean]
)

/** The synced join by brute force, a partition and a batch at a time. Shares no code with the engine.
  *
  * @param duplicates what is done about them: "emit", "drop" or "divert"
  */
final class SyncOracle(window: Long, duplicates: String, emitRight: Boolean) {
  private val lefts = new ArrayBuffer[(SyncRow, Int)]
  private val rights = new ArrayBuffer[(SyncRow, Int)]
  private var arrivals = 0
  private var releasedBefore: Option[Long] = None
  private var expiredBefore: Option[Long] = None

  var matched, unmatchedLeft, unmatchedRight, duplicateLeft, duplicateRight, lateLeft, nullRight = 0L

  def heldLeft: Seq[SyncRow] = lefts.map(_._1).toSeq

  /** Rows that may still be joined. */
  def heldRight: Seq[SyncRow] = rights.map(_._1).toSeq

  private def mark(duplicate: Boolean) = if (duplicates == "divert") Some(duplicate) else None

  private def numbered(row: SyncRow): (SyncRow, Int) = {
    arrivals += 1
    row -> arrivals
  }

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
    val (due, waiting) = lefts.toSeq.partition(l => now.exists(l._1.time.get < _))
    lefts.clear()
    lefts ++= waiting
    due.groupBy(_._1.key).values.foreach { rows =>
      val sorted = rows.sortBy(r => (r._1.time.get, r._2))
      val (first, others) = (sorted.head._1, sorted.tail.map(_._1))
      val found = rights.filter(_._1.key == first.key).sortBy(r => (r._1.time.get, r._2)).toSeq
      rights --= found
      if (found.isEmpty) unmatchedLeft += 1 else matched += 1
      out += SyncOut(first.key, Some(first.id), found.headOption.map(_._1.id), mark(false))
      duplicateLeft += others.size
      duplicateRight += Math.max(0, found.size - 1)
      if (duplicates != "drop")
        out ++= others.map(l => SyncOut(l.key, Some(l.id), None, mark(true)))
      if (duplicates == "divert")
        out ++= found.drop(1).map(r => SyncOut(r._1.key, None, Some(r._1.id), mark(true)))
    }
    val low = for (a <- now; b <- leftLow) yield Math.min(a, b)
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
