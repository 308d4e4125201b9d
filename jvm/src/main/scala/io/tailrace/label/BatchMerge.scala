package io.tailrace.label

import java.io.File

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.{MemoryErrors, RowMemoryExhausted, StepwiseRows}
import io.tailrace.join.{JoinColumns, SortedSide}
import io.tailrace.state._

/** Joins two iterators that are sorted by key and time. Holds the right rows of one key that are in the
  * window of one left row, or the part of them that the group can hold ([[MatchWindow]]). Each row that
  * is emitted is valid until the next one.
  */
private[label] final class BatchMerge(
    columns: JoinColumns,
    settings: JoinSettings,
    leftRows: Iterator[InternalRow],
    rightRows: Iterator[InternalRow],
    memory: RowMemory
) extends StepwiseRows[InternalRow]
    with AutoCloseable {
  private val window = settings.window
  private val candidates = new Candidates(memory)
  // One more than is emitted, to know whether the group is truncated.
  private val bound = {
    // The versions of a left row choose among different rows of its window.
    val b = if (settings.horizons.isEmpty) settings.bound else MatchBound.None
    if (b.policy == MatchPolicy.All && b.isBound) b.copy(most = b.most + 1) else b
  }
  private val matches = new MatchWindow(bound, candidates)

  private val left = SortedSide.left(leftRows, columns)
  private val right = SortedSide.right(rightRows, columns)
  private val payload = columns.payloadProjection()
  private lazy val groups = settings.groupWriter(columns, memory)
  private lazy val pairs = new PairWriter(columns, settings.marksLate)
  private val element = new UnsafeRow(columns.payload.size)

  private var key = new Array[Byte](0)
  private var started = false
  // The matches of the current left row end before `until`. Those before `position` have been emitted.
  private var position = 0
  private var until = 0
  // With one_to_one, the right rows of the key that are taken: those before `takenTime`, and the first `takenThen` at that time.
  private var takenTime = Long.MinValue
  private var takenThen = 0
  private val twins = columns.identityOrdinal.map(at => (new Twins, at))
  private var twin = 0
  private val versions =
    settings.horizons.map(new BatchVersions(_, settings.form.change(columns), candidates))
  // The right rows of the key, if a window of them has no room in memory.
  private var onDisk: Option[KeyOnDisk] = None

  /** The right rows of the left row's key. */
  private object rows extends KeyedRows {
    override def isEmpty: Boolean = !right.hasHead || !right.canMatch || right.compareKey(key) != 0
    override def time: Long = right.time
    override def advance(): Unit = right.dropHead()
    override def addTo(to: Candidates): Unit = {
      val value = payload(right.head)
      to.add(time, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
    }
  }

  override protected def step(): InternalRow =
    if (hasPair) nextPair()
    else if (versions.exists(_.hasNext)) version(versions.get)
    else if (!nextLeft()) {
      end()
      null
    } else if (settings.isGrouped) firstGroup()
    else null

  private def hasPair: Boolean = !settings.isGrouped && (position < until || onDisk.exists(_.hasMatch))

  private def nextPair(): InternalRow = onDisk match {
    case Some(disk) =>
      val pair = pairs.write(left.head, disk.next(element))
      if (settings.oneToOne) disk.endMatches()
      pair
    case None =>
      position += 1
      if (settings.oneToOne) take()
      pairs.write(left.head, candidates.pointTo(element, position - 1))
  }

  /** The left row has the match before `position`, and no other. */
  private def take(): Unit = {
    val time = candidates.time(position - 1)
    takenThen = if (time == takenTime) takenThen + 1 else 1
    takenTime = time
    until = position
  }

  /** Left rows come by time, so what is before the last row that was taken is too early for this one. */
  private def skipTaken(): Unit = {
    while (position < until && candidates.time(position) < takenTime) position += 1
    // The rows of one time come into a window together.
    val begin = position
    while (position < until && position < begin + takenThen && candidates.time(position) == takenTime)
      position += 1
  }

  /** The group of another left row, or null if its versions follow. One without a time has no horizon. */
  private def firstGroup(): InternalRow =
    if (versions.nonEmpty && left.hasTime) {
      versions.get.start(left.head, left.time, position, until, twin)
      null
    } else {
      groups.versionIs(GroupWriter.NoHorizon, hasEarlier = false, changed = false)
      group(until - position)
    }

  private def version(of: BatchVersions): InternalRow = {
    val matches = of.advance(groups)
    if (matches < 0) null else group(matches)
  }

  private def group(matches: Int): InternalRow =
    try groups.write(left.head, left.time, Matches(candidates, position, matches, matches, twin))
    catch { case e: RowMemoryExhausted => throw tooLarge(e) }

  private def tooLarge(e: RowMemoryExhausted): Throwable =
    MemoryErrors.groupTooLarge(candidates.size, candidates.bytes, e)

  /** Takes the next left row and finds its matches. */
  private def nextLeft(): Boolean = {
    left.dropHead()
    left.hasHead && {
      if (left.canMatch) findMatches()
      else {
        until = position
        onDisk.foreach(_.endMatches())
      }
      true
    }
  }

  private def findMatches(): Unit = {
    if (!started || left.compareKey(key) != 0) {
      started = true
      key = left.copyKey()
      takenTime = Long.MinValue
      closeDisk()
      twins.foreach(_._1.clear())
      while (right.hasHead && (!right.canMatch || right.compareKey(key) < 0)) right.dropHead()
      matches.start(rows)
    }
    twins.foreach { case (of, at) => twin = of.number(left.time, Twins.OneKey, left.head, at) }
    val (lower, upper) = (window.lowerBound(left.time), window.upperBound(left.time))
    if (onDisk.isEmpty) findInMemory(lower, upper)
    onDisk.foreach(_.slideTo(lower, upper))
  }

  private def findInMemory(lower: Long, upper: Long): Unit =
    try {
      matches.slideTo(left.time, lower, upper)
      position = candidates.first
      until = position + candidates.count
      if (settings.oneToOne) skipTaken()
    } catch {
      case e: RowMemoryExhausted =>
        if (settings.isGrouped) throw tooLarge(e)
        // With one_to_one, those that are taken are too early.
        val from = if (settings.oneToOne) takenTime else Long.MinValue
        onDisk = Some(KeyOnDisk.of(candidates, rows, memory, settings.oneToOne))
        if (from > Long.MinValue) onDisk.get.skip(from, takenThen)
        position = 0
        until = 0
    }

  private def closeDisk(): Unit = {
    onDisk.foreach(_.close())
    onDisk = None
  }

  override def close(): Unit = {
    closeDisk()
    candidates.close()
    if (settings.isGrouped) groups.close()
  }
}

/** The right rows of one key in a local file, by time, for a join of batch DataFrames whose windows have no
  * room in memory. Each left row reads its window.
  */
private final class KeyOnDisk private (
    directory: File,
    local: LocalRun,
    section: Section,
    forwardOnly: Boolean
) extends AutoCloseable {
  private val cursor = new LiveSection(local, section).cursor()
  private var upper = 0L
  private var matching = false
  private var isBegun = false

  /** Moves to the matches of the next left row. */
  def slideTo(lower: Long, to: Long): Unit = {
    upper = to
    matching = true
    if (!forwardOnly || !isBegun) cursor.seekTime(lower)
    else while (cursor.isValid && cursor.time < lower) cursor.next()
    isBegun = true
  }

  /** Leaves out the rows before a time, and the first `count` of that time. */
  def skip(time: Long, count: Int): Unit = {
    slideTo(time, time)
    (0 until count).foreach(_ => if (hasMatch) cursor.next())
  }

  /** The left row matches nothing. */
  def endMatches(): Unit = matching = false

  def hasMatch: Boolean = matching && cursor.isValid && cursor.time <= upper

  /** @return `row`, pointed to the next match; valid until the next call */
  def next(row: UnsafeRow): UnsafeRow = {
    // A copy: the next move may overwrite the page that holds the row.
    val value = cursor.valueBytes
    row.pointTo(value, value.length)
    cursor.next()
    row
  }

  override def close(): Unit = {
    cursor.close()
    local.release()
    directory.delete()
    ()
  }
}

private object KeyOnDisk {
  private val Kind = ScratchKind.ByTime

  /** @param first the rows that are in memory already, which are released
    * @param rest  all other rows, in the order of time, none before the first ones
    * @param forwardOnly whether each row is read once
    */
  def of(first: Candidates, rest: KeyedRows, memory: RowMemory, forwardOnly: Boolean): KeyOnDisk = {
    val directory = SparkState.localDirectory("tailrace-key")
    val local = new LocalRun("key", new File(directory, "key.run"), content = LocalContent.Scratch)
    local.acquire()
    try {
      val writer = new RunWriter(local.file)
      try {
        writer.begin(Kind, 0)
        write(first, rest, memory, writer)
        writer.end()
        writer.finish()
        new KeyOnDisk(directory, local, writer.sections.head, forwardOnly)
      } finally writer.close()
    } catch {
      case e: Throwable =>
        local.release()
        throw e
    }
  }

  private def write(first: Candidates, rest: KeyedRows, memory: RowMemory, writer: RunWriter): Unit = {
    val row = new RowBuffer(memory)
    val one = new Candidates(memory)
    var seq = 0L
    def writeOne(rows: Candidates, position: Int): Unit = {
      row.clear()
      row.append(
        Candidates.NoKey,
        0,
        rows.time(position),
        seq,
        rows.base(position),
        rows.valueOffset(position),
        rows.valueLength(position)
      )
      seq += 1
      writer.append(row.base(0), row.at(0))
    }
    try {
      (0 until first.size).foreach(writeOne(first, _))
      first.release()
      while (!rest.isEmpty) {
        one.clear()
        rest.addTo(one)
        writeOne(one, 0)
        rest.advance()
      }
    } finally {
      row.close()
      one.close()
    }
  }
}

/** The versions of the current left row of a join of batch DataFrames, one after the other. All matches of its window are
  * among the candidates; a version has those up to its horizon.
  */
private[label] final class BatchVersions(
    horizons: Horizons,
    change: GroupChange,
    candidates: Candidates
) {
  private var next = horizons.ends.size
  private var left: UnsafeRow = _
  private var leftTime = 0L
  private var first = 0
  private var end = 0
  private var twin = 0

  /** @param from,until the positions of the matches
    * @param of         see [[Matches]]
    */
  def start(row: UnsafeRow, time: Long, from: Int, until: Int, of: Int): Unit = {
    twin = of
    left = row
    leftTime = time
    first = from
    end = until
    next = 0
  }

  /** True if a version has yet to be looked at. */
  def hasNext: Boolean = next < horizons.ends.size

  /** Moves to the next version.
    *
    * @return the number of its matches if it is emitted; then `groups` knows its version. Otherwise -1
    */
  def advance(groups: GroupWriter): Int = {
    val number = next
    next += 1
    val count = matchesTo(horizons.ends(number))
    val comesOut = horizons.earlier(number).forall { earlier =>
      val before = matchesTo(earlier)
      change.compare(
        left,
        leftTime,
        Matches(candidates, first, count, count, twin),
        Matches(candidates, first, before, before, twin)
      )
      horizons.emit.includes(horizons.isFinal(number), change.isChanged, change.hasGained)
    }
    groups.versionIs(number, hasEarlier = number > 0, changed = number > 0 && change.isChanged)
    if (comesOut) count else -1
  }

  private def matchesTo(horizon: Long): Int =
    candidates.countThrough(first, end, JoinWindow.saturatingAdd(leftTime, horizon))
}
