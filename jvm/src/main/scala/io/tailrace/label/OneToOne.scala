package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.StoredJoinContext
import io.tailrace.state._

/** The promise of `exactly_one`: a left row has one match at the most, and so has a right row. Both leave the state when
  * they have been paired.
  *
  * Where the data breaks it, the right rows of a key come by time, and each takes the earliest left row of its window
  * that is free; left rows that come later than their right rows take the earliest of these. Of rows of one time the
  * first by content counts:
  *
  * {{{
  *   window 10 min      left 12:00 12:01      right 12:05 12:06 12:07
  *                      (12:00, 12:05) (12:01, 12:06)      12:07 finds no free row: a match is left out
  * }}}
  *
  * So the pairs depend on the rows of the batch and of the state alone. A key whose rows don't fit in memory is read by
  * [[LargeKeyPairs]], which pairs the same.
  */
private[label] final class OneToOne(context: StoredJoinContext, bucketWidth: Long) extends AutoCloseable {
  import StoreKind.{LeftKeySorted, RightKeySorted}
  import context._

  private val marks = {
    val kinds = Seq(StoreKind.GoneLeft, StoreKind.GoneRight)
    new GoneMarks(store, kinds, memory, bufferBytes, bucketWidth)
  }

  /** The pairs among the matches of the probing rows. They come by key, a chunk at a time. */
  final class Pairs(probing: Seq[LiveSection], sections: Seq[LiveSection], window: PairWindow)
      extends MatchedPairs {
    private val probes = {
      val all = if (sections.isEmpty) Nil else probing
      new RowsInOrder(new MergedSections(all, RowOrder.Key, Long.MinValue), context)
    }
    private val (probeKind, otherKind) =
      if (window.probesAreLeft) (LeftKeySorted, RightKeySorted) else (RightKeySorted, LeftKeySorted)
    private val goneProbes = marks.gone(probeKind)
    private val gone = marks.gone(otherKind)
    private val leftOut = metric(LabelMetrics.MatchesLeftOut)

    private val chunk = new RowBuffer(memory)
    private val sectionOf = new ArrayBuffer[LiveSection]
    private val share = new MemoryShare(memory, bufferBytes)
    private val merge = {
      import window.{from, to}
      new SortedMerge(from, to, memory, bufferBytes, large = LargeKeys.Apart, gone = Some(gone))
    }
    import merge.candidates

    // The keys of the chunk's rows before this one end in it.
    private var whole = 0
    private var large: Option[LargeKeyPairs] = None
    private var key = -1L
    // Candidates before `open` are too early for the rows to come, and those before `free` are taken, too.
    private var open = 0
    private var free = 0
    private var position = 0

    override def next(): Boolean = {
      var isFound = false
      var isThere = true
      while (!isFound && isThere) {
        if (large.nonEmpty) isFound = nextOfLarge()
        else if (merge.next()) {
          if (merge.isApart) {
            beginLarge(merge.restOfKey, None)
            merge.skipKey()
          } else isFound = isProbing(chunk.seq(merge.probe), chunk.time(merge.probe)) && pair()
        } else if (whole < chunk.size) {
          beginLarge(Array.range(whole, chunk.size), Some(probes))
          whole = chunk.size
        } else {
          nextChunk()
          isThere = !chunk.isEmpty
        }
      }
      isFound
    }

    private def isProbing(seq: Long, time: Long): Boolean =
      !goneProbes.contains(seq) && !window.isClosed(time)

    private def pair(): Boolean = {
      if (key != merge.piece) {
        key = merge.piece
        open = 0
        free = 0
      }
      val probe = merge.probe
      val end = candidates.first + candidates.count
      val lower = window.lower(chunk.time(probe))
      open = Math.max(open, candidates.first)
      while (open < end && candidates.time(open) < lower) open += 1
      position = Math.max(open, free)
      val isFound = position < end
      if (isFound) {
        free = position + 1
        marks.add(sectionOf(probe), chunk.time(probe), chunk.seq(probe))
        marks.add(candidates.section(position), candidates.time(position), candidates.seq(position))
      }
      leftOut += end - open - (if (isFound) 1 else 0)
      isFound
    }

    private def nextChunk(): Unit = {
      chunk.clear()
      sectionOf.clear()
      share.reset()
      def hasRoom = chunk.isEmpty || !share.isFull(chunk.bytes)
      while (!probes.isEmpty && hasRoom && probes.appendTo(chunk)) sectionOf += probes.section
      whole = chunk.size
      if (whole > 0 && !probes.isEmpty && probes.hasKey(chunk.base(whole - 1), chunk.at(whole - 1))) {
        whole -= 1
        while (whole > 0 && chunk.compareKeys(whole - 1, chunk.size - 1) == 0) whole -= 1
      }
      merge.start(chunk, Array.range(0, whole), sections)
    }

    /** @param rows of the key, in the chunk
      * @param more where the others are, if it continues behind the chunk
      */
    private def beginLarge(rows: Array[Int], more: Option[RowsInOrder]): Unit = {
      val ofKey = new KeyProbes(chunk, sectionOf, rows, more, memory)
      large = Some(new LargeKeyPairs(ofKey, sections, window, isProbing, gone, leftOut, context))
    }

    private def nextOfLarge(): Boolean = {
      val pairs = large.get
      val isFound = pairs.next()
      if (isFound) {
        marks.add(pairs.probeSection, pairs.probeTime, pairs.probeSeq)
        marks.add(pairs.candidateSection, pairs.candidateTime, pairs.candidateSeq)
      } else endLarge()
      isFound
    }

    private def endLarge(): Unit = {
      large.foreach(_.close())
      large = None
    }

    override def probeTime: Long = large.fold(chunk.time(merge.probe))(_.probeTime)
    override def candidateTime: Long = large.fold(candidates.time(position))(_.candidateTime)

    override def pointTo(probe: UnsafeRow, candidate: UnsafeRow): Unit = large match {
      case Some(pairs) => pairs.pointTo(probe, candidate)
      case None =>
        val row = merge.probe
        probe.pointTo(chunk.base(row), chunk.valueOffset(row), chunk.valueLength(row))
        candidates.pointTo(candidate, position): Unit
    }

    override def close(): Unit = {
      endLarge()
      Seq(probes, merge, chunk).foreach(_.close())
    }
  }

  /** Writes what has gone. @return how many rows that is */
  def settle(): Long = marks.settle()

  /** Drops marks of rows that have left with their sections: see [[io.tailrace.state.TailraceStateStore]]. */
  def dropThrough(left: Long, right: Long): Unit = {
    store.dropThrough(StoreKind.GoneLeft, left): Unit
    store.dropThrough(StoreKind.GoneRight, right): Unit
  }

  override def close(): Unit = marks.close()
}

/** Where the partners of probing rows are.
  *
  * @param from          a partner is at a probing row's time plus this at the least
  * @param to            and at its time plus this at the most
  * @param probesAreLeft which side probes
  * @param closedThrough left rows up to this time get none
  */
private[label] final case class PairWindow(
    from: Long,
    to: Long,
    probesAreLeft: Boolean,
    closedThrough: Long
) {
  import JoinWindow.saturatingAdd

  def isClosed(probeTime: Long): Boolean = probesAreLeft && probeTime <= closedThrough

  def lower(probeTime: Long): Long = {
    val first = saturatingAdd(probeTime, from)
    if (probesAreLeft) first else Math.max(first, saturatingAdd(closedThrough, 1L))
  }

  def upper(probeTime: Long): Long = saturatingAdd(probeTime, to)
}
