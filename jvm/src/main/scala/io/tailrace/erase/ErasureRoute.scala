package io.tailrace.erase

import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.JoinedRow

import io.tailrace.inspect.{StateColumns, StateDecoder}
import io.tailrace.rewrite.{JoinState, RowRoute, RowRoutes}
import io.tailrace.state._

/** Leaves out the rows that are erased; the others stay in their partition.
  *
  * @param left  the test of left rows, if the condition applies to them
  * @param right of right rows
  * @param dry   no row is written, and all are counted
  */
private[erase] final class ErasureRoutes(
    columns: StateColumns,
    left: Option[RowTest],
    right: Option[RowTest],
    dry: Boolean
) extends RowRoutes {
  override def of(join: JoinState, partition: Int): RowRoute =
    new ErasureRoute(
      columns,
      left.map(_.begin()),
      right.map(_.begin()),
      if (dry) RowRoute.Nowhere else partition
    )
}

private[erase] object ErasureRoute {
  val Left = "left"
  val Right = "right"
  val Matches = "matches"
}

/** @param kept where rows go that aren't erased */
private final class ErasureRoute(
    columns: StateColumns,
    left: Option[InternalRow => Boolean],
    right: Option[InternalRow => Boolean],
    kept: Int
) extends RowRoute {
  import ErasureRoute._
  import StoreKind._

  private val erased = mutable.LinkedHashMap(Left -> 0L, Right -> 0L, Matches -> 0L)
  private val decoder = new StateDecoder(columns)
  private val joined = new JoinedRow
  private var lastKey = Array.emptyByteArray
  private var lastRow: InternalRow = _

  /** The numbers of erased left rows, where other stores refer to them. */
  private var lefts: Option[Array[Long]] = None

  override def counts: Map[String, Long] = erased.toMap

  /** Eager matching keeps a left row once, and the rest by its number: its key alone, and its matches. */
  override def begin(state: LoadedState): Unit = {
    val kinds = state.sections.map(_.section.kind).toSet
    if (kinds(LeftTimeSorted) && (kinds(LeftKeySorted) || kinds(JoinedIndicator)))
      lefts = left.map(test => numbersOf(state, test))
  }

  private def numbersOf(state: LoadedState, test: InternalRow => Boolean): Array[Long] = {
    val found = mutable.ArrayBuilder.make[Long]
    val living = LivingRows.of(state)
    val sections = state.sections.filter(_.section.kind == LeftTimeSorted)
    LiveSection.prepare(sections)
    sections.foreach { live =>
      living.foreachRow(live)(row => if (test(decoder.left(live, row))) found += row.seq)
    }
    val all = found.result()
    Arrays.sort(all)
    all
  }

  private def isErasedLeft(seq: Long): Boolean = lefts.exists(Arrays.binarySearch(_, seq) >= 0)

  override def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int = {
    val side = live.section.kind match {
      case LeftTimeSorted | HeldLeft if lefts.isEmpty => Option.when(isLeft(live, row))(Left)
      case LeftTimeSorted => Option.when(isErasedLeft(row.seq))(Left)
      case LeftKeySorted if RowLayout.valueLength(row.base, row.at) == 0 =>
        // Its row counts where it is whole.
        Option.when(isErasedLeft(row.seq))("")
      case LeftKeySorted | LeftOut => Option.when(isLeft(live, row))(Left)
      case RightKeySorted | RightTimeSorted | HeldRight | RightNewest =>
        Option.when(isRight(live, row, keyed))(if (isFirstPart(live, keyed)) Right else "")
      case JoinedIndicator => Option.when(isErasedLeft(row.seq) || isRight(live, row, keyed))(Matches)
      case other => throw new IllegalStateException(s"${other.name} has no rows of a side")
    }
    side.filter(_.nonEmpty).foreach(name => erased(name) += 1)
    if (side.isEmpty) kept else RowRoute.Nowhere
  }

  private def isLeft(live: LiveSection, row: RunCursor): Boolean =
    left.exists(test => test(decoder.left(live, row)))

  private def isRight(live: LiveSection, row: RunCursor, keyed: RunCursor): Boolean = right.exists { test =>
    // The matches of a left row without a key are none.
    RowLayout.keyLength(keyed.base, keyed.at) > 0 &&
    test(joined(keyOf(live, keyed), decoder.right(live, row)))
  }

  /** A right row of a hot key is in the state once for each part of the key. */
  private def isFirstPart(live: LiveSection, keyed: RunCursor): Boolean =
    columns.part.forall(keyOf(live, keyed).getInt(_) == 0)

  private def keyOf(live: LiveSection, keyed: RunCursor): InternalRow = {
    val key = keyed.keyBytes
    if (lastRow == null || !Arrays.equals(key, lastKey)) {
      lastRow = decoder.key(live, keyed)
      lastKey = key
    }
    lastRow
  }
}
