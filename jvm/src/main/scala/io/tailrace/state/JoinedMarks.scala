package io.tailrace.state

import java.util.Arrays

/** The rows that have left held-right though their sections are still there, by sequence number. */
final class JoinedMarks private (sorted: Array[Long]) {
  def contains(seq: Long): Boolean = Arrays.binarySearch(sorted, seq) >= 0
}

object JoinedMarks {

  /** @param sections of a version; those that hold no marks are left aside */
  def of(sections: Seq[LiveSection]): JoinedMarks = {
    val marks = sections.filter(_.section.kind == StoreKind.JoinedRight)
    val seqs = new Array[Long](Math.toIntExact(marks.map(_.section.rows).sum))
    var count = 0
    marks.foreach { live =>
      live.foreachRow { cursor =>
        seqs(count) = cursor.seq
        count += 1
      }
    }
    Arrays.sort(seqs)
    new JoinedMarks(seqs)
  }
}
