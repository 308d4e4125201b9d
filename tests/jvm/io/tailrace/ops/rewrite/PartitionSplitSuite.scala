package io.tailrace.ops.rewrite

import java.io.File

import scala.collection.mutable.ArrayBuffer

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.state.{LiveSection, RunCursor}
import io.tailrace.testkit.StateVersions.{drawn, living}
import io.tailrace.testkit.{StateVersions, TestRow}

final class PartitionSplitSuite extends AnyFunSuite with StateVersions with ScalaCheckPropertyChecks {
  private val Targets = 3

  /** By the row's time: that of a match is its left row's. */
  private object ByTime extends RowRoute {
    override def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int = targetOf(row.time)
  }

  private def targetOf(time: Long): Int = Math.floorMod(time, Targets.toLong).toInt

  private def sorted(rows: Seq[(Int, (String, TestRow))]) =
    rows.sortBy { case (target, (store, row)) => (target, store, row.time, row.seq) }

  test("each row that counts goes to its target, once, however many slices a partition has") {
    val files = Iterator.from(0)
    forAll(drawn) { version =>
      try {
        val state = versionOf(version)
        val expected = sorted(living(state).map(found => targetOf(found._2.time) -> found))
        Seq(1, 2).foreach { slices =>
          val found = new ArrayBuffer[(Int, (String, TestRow))]
          (0 until slices).foreach { slice =>
            def newRuns() = new SplitRuns(() => new File(directory, s"split-${files.next()}.run"))
            val split = new PartitionSplit(state, ByTime, bucketWidth = 10, () => newRuns())
            split.split(Slice(0, slice, slices)) { (_, runs) =>
              runs.foreach { run =>
                opening(run.written.file, run.sections).foreach { live =>
                  found ++= TestRow.all(live).map(row => run.target -> (live.section.store -> row))
                }
              }
            }
          }
          assert(sorted(found.toSeq) == expected)
        }
      } finally {
        closeRuns()
        closeBuffers()
      }
    }
  }
}
