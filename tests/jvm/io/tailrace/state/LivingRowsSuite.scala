package io.tailrace.state

import java.io.File

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.ops.inspect.CheckpointInspection
import io.tailrace.plan.GoldenCheckpoints
import io.tailrace.testkit.StateVersions.{drawn, living}
import io.tailrace.testkit.{StateVersions, TestRow}

final class LivingRowsSuite extends AnyFunSuite with StateVersions with ScalaCheckPropertyChecks {
  private def sorted(rows: Seq[(String, TestRow)]) = rows.sortBy { case (store, r) => (store, r.time, r.seq) }

  private def byRule(state: LoadedState): Seq[(String, TestRow)] = {
    val rule = LivingRows.of(state)
    val found = new ArrayBuffer[(String, TestRow)]
    state.sections.filter(_.section.kind.hasRows).foreach { live =>
      rule.foreachRow(live)(row => found += live.section.store -> TestRow.read(row))
    }
    found.toSeq
  }

  private def bySparksReader(state: LoadedState): Seq[(String, TestRow)] = {
    val rows = new BufferedRows(state.sections, state.manifest.expiry)
    try
      rows.map { pair =>
        val k = pair.key
        k.getUTF8String(0).toString ->
          TestRow(k.getBinary(3).toVector, k.getLong(1), k.getLong(2), pair.value.getBinary(0).toVector)
      }.toVector
    finally rows.close()
  }

  /** The rows of stores that background compaction merges, when all runs have become one. */
  private def merged(state: LoadedState): Seq[(String, TestRow)] = {
    val inputs = state.sections.filter(_.section.kind.compacts)
    val file = new File(directory, s"merged-${System.nanoTime}.run")
    val writer = new RunWriter(file)
    val sections =
      try Compaction.merge(inputs, NewestRows.of(state), GoneMerge.of(state, inputs), writer)
      finally writer.close()
    if (sections.isEmpty) Nil
    else opening(file, sections).flatMap(live => TestRow.all(live).map(live.section.store -> _))
  }

  private def check(state: LoadedState): Unit = {
    val expected = living(state)
    assert(byRule(state) == expected)
    assert(bySparksReader(state) == expected)
    // Merges leave out superseded rows, too: NewestRowsSuite.
    def compacting(rows: Seq[(String, TestRow)]) = sorted(rows.filter { case (store, _) =>
      StoreKind.named(store).exists(kind => kind.compacts && !kind.keepsNewest)
    })
    assert(compacting(merged(state)) == compacting(expected))
  }

  test("the rule, Spark's reader and merges agree with a brute-force reading on random versions") {
    forAll(drawn) { version =>
      try check(versionOf(version))
      finally {
        closeRuns()
        closeBuffers()
      }
    }
  }

  test("they agree on every partition of every golden checkpoint") {
    var rows = 0L
    GoldenCheckpoints.archives.foreach { case (_, archive) =>
      emptyDirectory()
      GoldenCheckpoints.unpack(archive, directory)
      val conf = new Configuration
      new CheckpointInspection(s"$directory/checkpoint", conf).newest.joins.foreach { join =>
        join.partitions.foreach { partition =>
          val local = new File(directory, s"local-${join.operator}-${partition.partition}")
          assert(local.mkdir())
          val opened =
            new OutsideState(
              local,
              partition.files(conf),
              partition.version,
              partition.id,
              RowShapes.AsWritten
            )
          try {
            withClue(s"$archive, operator ${join.operator}, partition ${partition.partition}: ") {
              check(opened.state)
            }
            rows += living(opened.state).size
          } finally opened.close()
        }
      }
      closeRuns()
    }
    assert(rows > 400)
  }

  test(
    "no row that counts is before the bound of its section, and the first one of a time-sorted store may be at it"
  ) {
    forAll(drawn) { version =>
      val state = versionOf(version)
      val rule = LivingRows.of(state)
      try
        state.sections.filter(_.section.kind.hasRows).foreach { live =>
          val kind = live.section.kind
          val times = new ArrayBuffer[Long]
          rule.foreachRow(live)(row => times += row.time)
          val bound = rule.in(kind).notBefore(live.section)
          assert(times.forall(_ >= bound) && bound == state.manifest.expiry.notBefore(live.section))
          assert(bound >= live.section.minTime)
        }
      finally {
        closeRuns()
        closeBuffers()
      }
    }
  }

  test("a rule without rows up to a later time keeps the tombstones") {
    val gone = new GoneRows
    gone.add(3)
    val rows = (1 to 5).map(i => TestRow.of("k", i.toLong, i.toLong))
    val live = newRun(100, StoreKind.RightKeySorted -> bufferOf(rows)).head
    def times(rule: LivingRows.InStore): Seq[Long] = {
      val cursor = rule.cursor(live)
      try
        Iterator
          .continually(cursor)
          .takeWhile(_.isValid)
          .map { at =>
            val t = at.row.time; at.next(); t
          }
          .toVector
      finally cursor.close()
    }
    val all = new LivingRows.InStore(Long.MinValue, () => gone)
    assert(times(all) == Seq(1, 2, 4, 5))
    assert(times(all.after(1)) == Seq(2, 4, 5) && times(all.after(2).after(1)) == Seq(4, 5))
    assert(times(all.after(Long.MaxValue)).isEmpty)
    assert(all.after(Long.MaxValue).notBefore(live.section) == 1 && all.after(2).notBefore(live.section) == 3)
  }
}
