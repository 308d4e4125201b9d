package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.{ArrayType, BooleanType, DataType, StructField, StructType}

import io.tailrace.join.{ColumnWords, JoinColumns, LeftRowWriter, PinnedSetting}
import io.tailrace.state.{RowLayout, RowMemory}

/** The columns that a grouped join makes of the matches of a left row. They follow the left columns.
  *
  * {{{
  *   left row (A, 12:00)   matches 12:04, 12:30
  *
  *   OneGroup              labels = [12:04, 12:30]
  *   examples              click = [12:04], buy = [12:30]      (io.tailrace.examples.LabelColumns)
  * }}}
  */
private[tailrace] trait GroupForm extends Serializable {

  /** In `explain`, by the names of the arguments. */
  def text: String

  /** The most matches that are looked at. */
  def bound: MatchBound

  /** The settings that a checkpoint pins, in the words of the call.
    *
    * @param ofJoin the settings of any label join
    * @param bound  settings that only this form has, by their names
    */
  def pinned(ofJoin: Seq[PinnedSetting], bound: Map[String, String]): Seq[PinnedSetting]

  /** True if the columns have windows of their own, so that left rows are complete in a shorter one of the join. */
  def mayShrink: Boolean

  /** The words of errors about columns that have changed since a checkpoint was written. */
  def columnWords: ColumnWords

  /** The number of columns that are emitted. */
  def size: Int

  /** These columns.
    *
    * @param into    the name that the user has given
    * @param payload the right columns without the keys
    */
  def fields(into: String, payload: Seq[Attribute]): Seq[StructField]

  /** Their values for a left row that no right row can match. */
  def empty(columns: JoinColumns): Seq[Expression]

  /** True for right rows that are events: others aren't emitted on their own. By the right columns without the keys. */
  def isEvent(columns: JoinColumns): Expression

  /** True if a right row that has the keys of a left row matches it. By the columns of both.
    *
    * @param window of the join
    */
  def isMatch(columns: JoinColumns, window: JoinWindow): Expression

  /** True if each right row that has the keys of a left row and is in the window of the join matches it. Otherwise the
    * form's writer says which ones do.
    */
  def matchesAll: Boolean

  /** Their values for a right row that is emitted without a left one. */
  def alone(columns: JoinColumns): Seq[Expression]

  /** The value of a left column, by a key of such a right row that the join doesn't have; none: null. */
  def keyAlone(left: Attribute, columns: JoinColumns): Option[Expression] = None

  def writer(columns: JoinColumns, version: VersionColumns, memory: RowMemory): GroupWriter

  def change(columns: JoinColumns): GroupChange
}

/** All matches in one column, or those that the policy and the cap leave.
  *
  * @param maxMatches if there is a cap, an additional column says whether it has cut the group
  */
private[tailrace] final case class OneGroup(policy: MatchPolicy, maxMatches: Option[Int]) extends GroupForm {
  override def text: String = s"match=${policy.name}${maxMatches.fold("")(n => s", max_matches=$n")}"

  override def bound: MatchBound =
    MatchBound(policy, if (policy == MatchPolicy.All) maxMatches.getOrElse(Int.MaxValue) else 1)

  override def pinned(ofJoin: Seq[PinnedSetting], bound: Map[String, String]): Seq[PinnedSetting] = ofJoin

  override def mayShrink: Boolean = false

  override def columnWords: ColumnWords = ColumnWords.OfJoin

  override def size: Int = 1 + maxMatches.size

  override def fields(into: String, payload: Seq[Attribute]): Seq[StructField] = {
    val element = StructType(payload.map(a => StructField(a.name, a.dataType, a.nullable)))
    StructField(into, ArrayType(element, containsNull = false), nullable = false) +:
      maxMatches.toSeq.map(_ => StructField(s"${into}_truncated", BooleanType, nullable = false))
  }

  override def empty(columns: JoinColumns): Seq[Expression] =
    Literal.create(Nil, columns.added.head.dataType) +: uncut

  override def isEvent(columns: JoinColumns): Expression = Literal.TrueLiteral

  override def isMatch(columns: JoinColumns, window: JoinWindow): Expression =
    InWindow(columns.leftTime, columns.rightTime, window)

  override def matchesAll: Boolean = true

  override def alone(columns: JoinColumns): Seq[Expression] =
    CreateArray(Seq(CreateNamedStruct(columns.payload.flatMap(a => Seq(Literal(a.name), a))))) +: uncut

  private def uncut: Seq[Expression] = maxMatches.toSeq.map(_ => Literal(false))

  override def writer(columns: JoinColumns, version: VersionColumns, memory: RowMemory): GroupWriter =
    new OneGroupWriter(this, columns, version, memory)

  override def change(columns: JoinColumns): GroupChange = new OneGroupChange(this)

  /** The first match of a left row that is emitted, and the number of emitted ones. */
  def chosen(leftTime: Long, matches: Matches): (Int, Int) = {
    import matches.{count, first, rows}
    val one = if (count == 0) -1 else policy.choose(count, leftTime, i => rows.time(first + i))
    if (one >= 0) (first + one, 1) else (first, matches.matched - leftOut(matches))
  }

  /** The number of matches the cap leaves out. */
  def leftOut(matches: Matches): Int =
    if (policy == MatchPolicy.All) Math.max(0, matches.matched - bound.most) else 0
}

/** Writes the group, then whether the cap has cut it if there is one. Elements are copied once, as their bytes in the
  * state.
  */
private[label] final class OneGroupWriter(
    form: OneGroup,
    columns: JoinColumns,
    version: VersionColumns,
    memory: RowMemory
) extends GroupWriter(columns, version, memory) {
  private val capped = form.maxMatches.nonEmpty
  private var rows: Candidates = _
  private var start = 0
  private var size = 0
  private var leftOut = 0

  override def lastSize: Int = size
  override def lastLeftOut: Int = leftOut

  override protected def find(left: UnsafeRow, leftTime: Long, matches: Matches): Long = {
    rows = matches.rows
    val chosen = form.chosen(leftTime, matches)
    start = chosen._1
    size = chosen._2
    leftOut = form.leftOut(matches)
    var bytes = 0L
    var i = 0
    while (i < size) {
      bytes += rows.valueLength(start + i)
      i += 1
    }
    LeftRowWriter.arrayBytes(size) + bytes
  }

  override protected def writeFound(at: Int): Unit = {
    beginArray(at, size)
    var i = 0
    while (i < size) {
      val position = start + i
      addElement(i, rows.base(position), rows.valueOffset(position), rows.valueLength(position))
      i += 1
    }
    endArray(0)
    if (capped) putFlag(1, leftOut > 0)
  }
}

/** Compares the columns of a left row with those of its previous version. */
private[tailrace] trait GroupChange {

  /** True if the columns have other values now. */
  def isChanged: Boolean

  /** True if a column that was empty has a match now. */
  def hasGained: Boolean

  def compare(left: UnsafeRow, leftTime: Long, now: Matches, before: Matches): Unit
}

private[label] final class OneGroupChange(form: OneGroup) extends GroupChange {
  private var changed = false
  private var gained = false

  override def isChanged: Boolean = changed
  override def hasGained: Boolean = gained

  override def compare(left: UnsafeRow, leftTime: Long, now: Matches, before: Matches): Unit = {
    val (nowStart, nowSize) = form.chosen(leftTime, now)
    val (start, size) = form.chosen(leftTime, before)
    // Groups of one size may differ in the flag of the cap.
    changed = nowSize != size || (form.leftOut(now) > 0) != (form.leftOut(before) > 0) || {
      var i = 0
      while (i < size && isSame(now.rows, nowStart + i, before.rows, start + i)) i += 1
      i < size
    }
    gained = size == 0 && nowSize > 0
  }

  private def isSame(a: Candidates, i: Int, b: Candidates, j: Int): Boolean =
    RowLayout.compareValues(a.base(i), a.at(i), b.base(j), b.at(j)) == 0
}

/** True if a right row is in the window of a left row. */
private[tailrace] final case class InWindow(left: Expression, right: Expression, window: JoinWindow)
    extends BinaryExpression
    with CodegenFallback {
  override def dataType: DataType = BooleanType

  override protected def nullSafeEval(leftTime: Any, rightTime: Any): Any = {
    val (l, r) = (leftTime.asInstanceOf[Long], rightTime.asInstanceOf[Long])
    window.lowerBound(l) <= r && r <= window.upperBound(l)
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): InWindow =
    copy(left = newLeft, right = newRight)
}
