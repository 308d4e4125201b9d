package io.tailrace.testkit

import org.scalacheck.Gen
import org.scalatest.Suite

import io.tailrace.state._

/** Random versions of a partition's state, and which of their rows count: a brute-force reading of
  * `jvm/docs/formats.md`, by the names of stores.
  */
trait StateVersions extends RunFixture { self: Suite =>
  import StateVersions._

  /** A version of which each run has these rows, and these tombstones. */
  def versionOf(drawn: Drawn): LoadedState = {
    val runs = drawn.runs.zipWithIndex.map { case (rows, i) =>
      // The same rows for each store, so that a rule that is taken for another shows at once.
      def first(n: Int) = i * 1000L + n * 100
      val left = rows.zipWithIndex.map { case ((key, time), j) =>
        TestRow.of(key, time, first(0) + j, "left")
      }
      val leftKeys = left.map(row => row.copy(seq = row.seq + 100))
      val right = left.map(row => row.copy(seq = row.seq + 200))
      val matches = left.map(row => row.copy(key = MatchOf, value = TestRow.bytes("right")))
      def tombstones(of: Seq[TestRow]) =
        of.filter(row => drawn.gone((row.seq % 100).toInt % drawn.gone.size))
          .map(row => TestRow(Vector.empty, row.time, row.seq, Vector.empty))
      newRun(
        10,
        Seq(
          StoreKind.LeftTimeSorted -> left,
          StoreKind.LeftKeySorted -> leftKeys,
          StoreKind.RightKeySorted -> right,
          StoreKind.JoinedIndicator -> matches,
          StoreKind.HeldLeft -> left,
          StoreKind.HeldRight -> right,
          // Their time is the version of the row's run.
          StoreKind.JoinedRight -> tombstones(right).map(_.copy(time = 3)),
          StoreKind.RightNewest -> right,
          StoreKind.GoneLeft -> tombstones(leftKeys),
          StoreKind.GoneRight -> tombstones(right),
          StoreKind.RightTimeSorted -> right,
          StoreKind.LeftOut -> left,
          StoreKind.JoinedLeft -> tombstones(left).map(_.copy(time = 3)),
          StoreKind.MatchedRight -> right
        ).map { case (kind, of) => kind -> bufferOf(of) }: _*
      )
    }
    val manifest = Manifest(
      5,
      drawn.results,
      runs.map(sections => Run(sections.head.local.name, 1, 0, sections.map(_.section))),
      drawn.operator
    )
    new LoadedState(manifest, runs.map(_.head.local), None)
  }
}

object StateVersions {

  /** The key of a match: its right row's time and number. */
  val MatchOf: Vector[Byte] = Vector.fill(MatchKey.Length)(0x80.toByte)

  /** @param runs     keys and times of rows
    * @param gone     which of them have tombstones, by number
    * @param results  left rows up to this time have been emitted
    * @param operator the operator's own time
    */
  final case class Drawn(runs: Seq[Seq[(String, Long)]], gone: Seq[Boolean], results: Long, operator: Long)

  val drawn: Gen[Drawn] = {
    val time = Gen.frequency(1 -> Gen.const(Long.MinValue), 5 -> Gen.choose(-35L, 35L))
    for {
      count <- Gen.choose(1, 4)
      row = Gen.zip(Gen.oneOf("a", "b", "a longer key"), Gen.choose(-30L, 30L))
      runs <- Gen.listOfN(count, Gen.choose(1, 12).flatMap(Gen.listOfN(_, row)))
      gone <- Gen.listOfN(7, Gen.oneOf(true, false, false))
      results <- time
      operator <- time
    } yield Drawn(runs, gone, results, operator)
  }

  private val ByResults = Set("left-time-sorted", "left-key-sorted", "joined-indicator", "held-left")
  private val ByOperator = Set("right-time-sorted", "held-right")
  private val Tombstones = Map(
    "gone-left" -> "left-key-sorted",
    "gone-right" -> "right-key-sorted",
    "joined-right" -> "held-right",
    "joined-left" -> "held-left"
  )

  /** The rows that count, by the name of their store, in the order of runs and sections. */
  def living(state: LoadedState): Seq[(String, TestRow)] = {
    val all = state.sections.flatMap(live => TestRow.all(live).map(live.section.store -> _))
    val gone = all.collect {
      case (store, row) if Tombstones.contains(store) => Tombstones(store) -> row.seq
    }.toSet
    val (results, operator) = (state.manifest.expiredThrough, state.manifest.rightExpiredThrough)
    all.filter { case (store, row) =>
      val through =
        if (ByResults(store)) results else if (ByOperator(store)) operator else Long.MinValue
      !Tombstones.contains(store) && row.time > through && !gone(store -> row.seq)
    }
  }
}
