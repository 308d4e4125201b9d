package io.tailrace.label

import io.tailrace.label.JoinWindow.saturatingAdd

/** The number of rows that match each probe of a key, where the rows aren't held: each is counted as it is read.
  *
  * @param start,end the positions of the key's probes; the last one is before `end`
  * @param from      see [[SortedMerge]]
  */
private[label] final class MatchTally(probes: Probes, start: Int, end: Int, from: Long, to: Long) {
  private val changes = new Array[Int](end - start + 1)

  /** Counts a row for the probes that it matches, which are neighbours.
    *
    * @param hiddenThrough probes up to this time don't get it
    */
  def count(time: Long, hiddenThrough: Long): Unit = {
    val first =
      probes.firstOfKey(start, end)(probe => saturatingAdd(probe, to) >= time && probe > hiddenThrough)
    val last = probes.firstOfKey(start, end)(probe => saturatingAdd(probe, from) > time)
    if (first < last) {
      changes(first) += 1
      changes(last) -= 1
    }
  }

  /** How many more rows match a probe than the one before it. */
  def more(position: Int): Int = changes(position - start)
}
