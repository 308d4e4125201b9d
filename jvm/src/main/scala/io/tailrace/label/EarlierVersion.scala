package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state.{LiveSection, RowBuffer, RowMemory}

/** What left rows came out with at the horizon before, found again: nothing of it is kept. It is what they match up
  * to there, without rows that came when the watermark had passed it.
  *
  * @param end    of that horizon, microseconds
  * @param change compares the two
  * @param late   which right rows came too late for it
  * @param newMerge makes a merge that finds these rows and no others
  */
private[label] final class EarlierVersion(
    end: Long,
    change: GroupChange,
    late: LateRights,
    memory: RowMemory,
    newMerge: () => SortedMerge
) extends AutoCloseable {
  private val picked = new Candidates(memory)
  private lazy val apart = newMerge()
  // Probes of a key whose rows aren't all held, which `apart` has yet to go through.
  private var remaining = 0

  /** For another chunk. */
  def restart(): Unit = remaining = 0

  /** Compares the probe of a merge with its earlier version.
    *
    * @param left     the probe
    * @param chunk    the probes of the merge
    * @param sections of the merge
    * @param twin     of the probe, see [[Matches]]
    */
  def compare(
      left: UnsafeRow,
      now: SortedMerge,
      chunk: RowBuffer,
      sections: Seq[LiveSection],
      twin: Int
  ): GroupChange = {
    val time = chunk.time(now.probe)
    val of = Matches.of(now, twin)
    if (now.isWindowed) {
      if (remaining == 0) {
        val rest = now.restOfKey
        apart.start(chunk, rest, sections)
        remaining = rest.length
      }
      apart.next()
      remaining -= 1
      change.compare(left, time, of, Matches.of(apart, twin))
    } else if (late.isNone) {
      // The first of the same rows: to copy them would be too much work where a key has very many.
      val until = JoinWindow.saturatingAdd(time, end)
      val count = of.rows.countThrough(of.first, of.first + of.count, until)
      change.compare(left, time, of, of.copy(count = count, matched = count))
    } else {
      pick(time, now.candidates)
      change.compare(left, time, of, Matches(picked, 0, picked.size, picked.size, twin))
    }
    change
  }

  private def pick(time: Long, from: Candidates): Unit = {
    picked.clear()
    var i = from.first
    while (i < from.first + from.count) {
      val isIn = from.time(i) <= JoinWindow.saturatingAdd(time, end) &&
        late.hiddenThrough(from.seq(i), from.time(i)) < time
      if (isIn) picked.add(from.base(i), from.at(i))
      i += 1
    }
    picked.settle()
  }

  /** Gives its memory back. It can be restarted. */
  def release(): Unit = {
    restart()
    picked.release()
    apart.release()
  }

  override def close(): Unit = release()
}
