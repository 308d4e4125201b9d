package io.tailrace.label

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.join.Growth
import io.tailrace.state.{LateRows, RowLayout}
import io.tailrace.testkit.Campaign

/** Which left rows a late right row finds closed. Times are minutes of a day. */
final class LateRightsSuite extends AnyFunSuite {
  private val minute = 60L * 1000 * 1000
  private def at(hour: Int, of: Int): Long = (hour * 60 + of) * minute

  /** Up to when left rows don't get a right row of a batch's version. */
  private def hidden(after: Int, grown: Growth*): Long => Long = version => {
    val late = new LateRights(Seq(LateRows(version, at(12, 33))), after * minute, grown)
    late.hiddenThrough(RowLayout.firstSeq(version), at(12, 20))
  }

  test("the example in the scaladoc: left rows whose window had closed don't get what came then") {
    val late = new LateRights(Seq(LateRows(5, at(12, 33))), 30 * minute)
    val seq = RowLayout.firstSeq(5)
    assert(late.hiddenThrough(seq, at(12, 20)) == at(12, 3))
    assert(late.hiddenThrough(seq, at(12, 33)) == at(12, 3), "at the watermark is behind it")
    assert(late.hiddenThrough(seq, at(12, 34)) == LateRights.All, "in time")
    assert(late.hiddenThrough(seq - 1, at(12, 20)) == LateRights.All, "of a batch before")
  }

  test("under a longer window of before, a left row was still open: it keeps what it has got") {
    // Batch 7 is the first with the window of now. Version 7 is that of batch 6.
    val shorter = hidden(after = 30, Growth(7, 40 * minute))
    assert(shorter(7) == at(11, 53))
    assert(shorter(8) == at(12, 3))
    val longer = hidden(after = 30, Growth(7, 10 * minute))
    assert(longer(7) == at(12, 3), "it has grown: what waits is judged by the window of now")
    val twice = hidden(after = 30, Growth(7, 50 * minute), Growth(9, 40 * minute))
    assert(Seq(7L, 8L, 9L, 10L).map(twice) == Seq(at(11, 43), at(11, 53), at(11, 53), at(12, 3)))
  }

  test("up to `sameThrough` left rows get the same rows, and the next one gets others") {
    Campaign.seeds(short = 300).foreach { seed =>
      val random = new Random(seed)
      val watermarks = Seq.fill(random.nextInt(5))(random.nextInt(40).toLong).sorted
      val batches = watermarks.zipWithIndex.map { case (w, i) => LateRows(2L * i + 1, w) }
      val late = new LateRights(batches, random.nextInt(10).toLong)
      val rows = for { version <- 0L to 10L; time <- 0L to 45L } yield (RowLayout.firstSeq(version), time)
      def got(left: Long) = rows.filter { case (seq, time) => late.hiddenThrough(seq, time) < left }
      val left = random.nextInt(50).toLong
      val through = late.sameThrough(left)
      (left to Math.min(through, 60L)).foreach(l => assert(got(l) == got(left), (batches, left, l)))
      if (through < 60L) assert(got(through + 1) != got(left), (batches, left))
    }
  }
}
