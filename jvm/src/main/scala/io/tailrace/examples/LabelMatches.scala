package io.tailrace.examples

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow, JoinedRow, NonSQLExpression}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types._

import io.tailrace.label.{JoinWindow, MatchPolicy}

/** Which elements of a group belong to one label.
  *
  * @param place       of the label's struct in an element
  * @param window      of the label, inside that of the join
  * @param most        of them, at least one
  * @param keysPlace   in the struct, of the keys that the join hasn't; none if there are no such keys
  * @param attribution to which impression an event is credited; none: to each
  */
final case class LabelRule(
    place: Int,
    window: JoinWindow,
    policy: MatchPolicy,
    most: Int,
    keysPlace: Option[Int],
    attribution: Option[Attribution]
) {

  /** In the struct, of the hash of a touch. */
  def touchPlace: Int = keysPlace.fold(LabelUnion.RowPlace)(identity) + 1

  /** The type of the label's column, from that of the join's group. */
  def columnType(group: DataType): DataType = {
    val credit = attribution.filter(_.isShared).map(_ => LabelRule.Credit)
    ArrayType(StructType(LabelUnion.rowType(group, place) ++ credit), containsNull = false)
  }
}

object LabelRule {

  /** What an event has behind its columns, if its credit is shared. */
  val Credit: StructField = StructField("credit", DecimalType(10, 9), nullable = false)
}

/** Takes the rows of one label out of a group of all labels ([[LabelUnion]]).
  *
  * {{{
  *   group of (user 1, 12:00)     (12:03, click)  (12:20, click)  (12:30, buy)
  *   click, after = 10 minutes    [(12:03, click)]
  *   buy, after = 1 day           [(12:30, buy)]
  * }}}
  *
  * Elements are in the order of time, and by content where times are equal. A late right row that comes out alone
  * has no time of its left side: it is its only match.
  */
private[examples] abstract class OfOneLabel extends Expression with CodegenFallback with NonSQLExpression {

  /** The group; the time of the left row; its further keys as bytes; the hash of its touch. */
  def group: Expression
  def time: Expression
  def moreKeys: Expression
  def hash: Expression
  def rule: LabelRule

  override def children: Seq[Expression] = Seq(group, time, moreKeys, hash)
  override def nullable: Boolean = false

  @transient private lazy val element =
    group.dataType.asInstanceOf[ArrayType].elementType.asInstanceOf[StructType]
  @transient private lazy val labelFields = element(rule.place).dataType.asInstanceOf[StructType].size
  @transient private lazy val rowFields = LabelUnion.rowType(group.dataType, rule.place).size
  @transient private lazy val touches = new Touches
  // The matches of the last group.
  @transient private var times: Array[Long] = _
  @transient private var rows: Array[InternalRow] = _

  /** How many elements of the group match. Those that come out are given by [[chosen]]. */
  protected final def find(input: InternalRow): Int = {
    val elements = group.eval(input).asInstanceOf[ArrayData]
    val count = elements.numElements()
    if (count == 0) 0
    else {
      if (times == null || times.length < count) {
        times = new Array[Long](2 * count)
        rows = new Array[InternalRow](2 * count)
      }
      time.eval(input) match {
        case null => alone(gather(elements, count, Long.MinValue, Long.MaxValue, checksKeys = false, input))
        case leftTime =>
          val at = leftTime.asInstanceOf[Long]
          val (lower, upper) = (rule.window.lowerBound(at), rule.window.upperBound(at))
          val found = gather(elements, count, lower, upper, checksKeys = rule.keysPlace.nonEmpty, input)
          rule.attribution.fold(found)(credited(_, at, found, input))
      }
    }
  }

  private def gather(
      elements: ArrayData,
      count: Int,
      lower: Long,
      upper: Long,
      checksKeys: Boolean,
      input: InternalRow
  ): Int = {
    val keys = if (checksKeys) moreKeys.eval(input).asInstanceOf[Array[Byte]] else null
    val attributed = rule.attribution.nonEmpty
    if (attributed) touches.clear()
    var found = 0
    var i = 0
    while (i < count) {
      val one = elements.getStruct(i, element.size)
      if (!one.isNullAt(rule.place)) {
        val at = one.getLong(LabelUnion.TimePlace)
        val label = one.getStruct(rule.place, labelFields)
        if (!checksKeys || hasKeys(label, keys)) {
          if (attributed && !label.isNullAt(rule.touchPlace)) touches.add(at, label.getLong(rule.touchPlace))
          else if (at >= lower && at <= upper) {
            times(found) = at
            rows(found) = label.getStruct(LabelUnion.RowPlace, rowFields)
            found += 1
          }
        }
      }
      i += 1
    }
    found
  }

  private def hasKeys(label: InternalRow, keys: Array[Byte]): Boolean = {
    val place = rule.keysPlace.get
    keys != null && !label.isNullAt(place) && Arrays.equals(keys, label.getBinary(place))
  }

  /** Keeps the matches of which the left row has a credit. */
  private def credited(attribution: Attribution, leftTime: Long, found: Int, input: InternalRow): Int = {
    touches.settle()
    val mine = if (found == 0) -1 else touches.place(leftTime, hash.eval(input).asInstanceOf[Long])
    var kept = 0
    var i = 0
    while (mine >= 0 && i < found) {
      val at = times(i)
      // Of the touches whose window the event is in.
      val first = touches.firstFrom(rule.window.earliestLeft(at))
      val n = touches.firstFrom(rule.window.latestLeft(at) + 1) - first
      val credit = attribution.credit(n, mine - first, touch => Math.abs(at - touches.time(first + touch)))
      if (credit > 0) {
        times(kept) = at
        rows(kept) = if (attribution.isShared) withCredit(rows(i), credit) else rows(i)
        kept += 1
      }
      i += 1
    }
    kept
  }

  /** A late row is credited to no other. */
  private def alone(found: Int): Int = {
    if (rule.attribution.exists(_.isShared))
      (0 until found).foreach(i => rows(i) = withCredit(rows(i), Attribution.Whole))
    found
  }

  private def withCredit(row: InternalRow, credit: Long): InternalRow =
    new JoinedRow(row, new GenericInternalRow(Array[Any](Decimal(credit, 10, 9))))

  /** The rows that come out, of so many that match. */
  protected final def chosen(found: Int, input: InternalRow): Array[Any] = {
    // A late row without a left one is alone.
    val one = time.eval(input) match {
      case null => -1
      case at => rule.policy.choose(found, at.asInstanceOf[Long], times(_))
    }
    if (one >= 0) Array[Any](rows(one)) else Array.tabulate[Any](Math.min(found, rule.most))(rows(_))
  }
}

/** The label's rows, an array of structs. */
case class LabelMatches(
    group: Expression,
    time: Expression,
    moreKeys: Expression,
    hash: Expression,
    rule: LabelRule
) extends OfOneLabel {
  override def dataType: DataType = rule.columnType(group.dataType)

  override def eval(input: InternalRow): Any = {
    val found = find(input)
    if (found == 0) LabelMatches.Empty else new GenericArrayData(chosen(found, input))
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): LabelMatches =
    copy(newChildren(0), newChildren(1), newChildren(2), newChildren(3))
}

private object LabelMatches {
  private val Empty = new GenericArrayData(Array.empty[Any])
}

/** Whether the label's rows are more than come out. */
case class LabelTruncated(
    group: Expression,
    time: Expression,
    moreKeys: Expression,
    hash: Expression,
    rule: LabelRule
) extends OfOneLabel {
  override def dataType: DataType = BooleanType
  override def eval(input: InternalRow): Any = rule.policy == MatchPolicy.All && find(input) > rule.most

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): LabelTruncated =
    copy(newChildren(0), newChildren(1), newChildren(2), newChildren(3))
}
