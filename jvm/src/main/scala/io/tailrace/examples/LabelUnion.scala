package io.tailrace.examples

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, Union}
import org.apache.spark.sql.types._

import io.tailrace.common.OwnNames
import io.tailrace.join.{JoinErrors, WiderKeys}
import io.tailrace.state.KeyEncoder

/** All labels as the right side of one join. A row has the struct of its own label, and null for the others:
  *
  * {{{
  *   user   time              click                          buy
  *   1      12:03             {row: {12:03, ...}, keys: ..}  null
  *   1      12:30             null                           {row: {12:30, 9.99}, touch: null}
  *   1      12:00             null                           {row: null, touch: 83...}
  * }}}
  *
  * A label is known by the name of its column: one that comes later is null in rows that are in the state already,
  * as any column is. `keys` are there if the label has keys that others haven't. `touch` is there if it is
  * attributed: then each impression leaves a row of itself, as the last one above ([[Touches]]).
  *
  * @param impressions the left side
  * @param common      its columns that are keys of all labels
  */
private[examples] final class LabelUnion(
    impressions: LogicalPlan,
    time: Attribute,
    labels: Seq[FoundLabel],
    common: Seq[Attribute]
) {
  import LabelUnion._

  private val keyTypes = common.map(left => left -> commonType(left))

  /** The right side. Its key columns have the names of `common`. A stream's operator adds the touches itself: with
    * them here, it would read the impressions twice.
    */
  def plan: LogicalPlan = {
    val own = labels.groupBy(one => (one.plan, one.time.exprId, common.map(one.key(_).exprId)))
    val inOrder = own.values.toSeq.sortBy(group => labels.indexOf(group.head)).map(of)
    val touches = Option.when(!impressions.isStreaming && labels.exists(_.isAttributed)) {
      val keys = keyTypes.map { case (left, to) => cast(left, to) -> left.name }
      side(impressions, keys, time, touch(impressions.output, time).tail)
    }
    val sides = inOrder ++ touches
    if (sides.size == 1) sides.head else Union(sides)
  }

  /** Labels of one stream are read once. A row may be an event of several. */
  private def of(group: Seq[FoundLabel]): LogicalPlan = {
    val head = group.head
    val keys = keyTypes.map { case (left, to) => cast(head.key(left), to) -> left.name }
    val structs = labels.map { one =>
      if (!group.contains(one)) empty(one)
      else one.where.fold(event(one))(If(_, event(one), empty(one)))
    }
    side(eventsOf(group), keys, head.time, structs)
  }

  /** The rows that are events of a label. A stream's watermark goes by all of its rows. Spark would filter before it, but
    * for a condition that names the time; rows without one are dropped by the join.
    */
  private def eventsOf(group: Seq[FoundLabel]): LogicalPlan = {
    val head = group.head
    if (group.exists(_.where.isEmpty)) head.plan
    else {
      val any = group.flatMap(_.where).reduce(Or(_, _))
      Filter(if (head.plan.isStreaming) Or(any, IsNull(head.time)) else any, head.plan)
    }
  }

  private def side(
      of: LogicalPlan,
      keys: Seq[(Expression, String)],
      time: Expression,
      structs: Seq[Expression]
  ): LogicalPlan = {
    val columns = structs.zip(labels.map(_.label.name))
    Project((keys ++ Seq(time -> Time) ++ columns).map { case (value, name) => Alias(value, name)() }, of)
  }

  /** The row that an impression leaves, without the keys.
    *
    * @param lefts the columns of the impressions, which may have other ids by now
    */
  def touch(lefts: Seq[Attribute], time: Attribute): Seq[Expression] = {
    def now(column: Attribute) = lefts(impressions.output.indexWhere(_.exprId == column.exprId))
    // Of a batch's touches, none has it yet.
    val hash = lefts.lift(impressions.output.size).getOrElse(touchHash(lefts))
    time +: labels.map { label =>
      if (!label.isAttributed) empty(label)
      else {
        val more = label.moreKeys(common).map { case (left, _, to) => now(left) -> to }
        struct(label, Literal(null, rowOf(label).dataType), more, hash)
      }
    }
  }

  /** The hash of an impression as it came, a column behind its own ones. After a change of columns it would be another
    * one than that of its touch.
    */
  val ownHash: Alias = Alias(touchHash(impressions.output), Hash)()

  /** Keys are left out: the join may widen their types. */
  def touchHash(lefts: Seq[Attribute]): Expression = {
    val columns = lefts.zip(impressions.output).collect {
      case (now, column) if !common.exists(_.exprId == column.exprId) => now
    }
    ImpressionHash(columns, columns.map(_.name))
  }

  private def rowOf(label: FoundLabel): Expression =
    CreateNamedStruct(label.row.flatMap(a => Seq(Literal(a.name), a)))

  private def event(label: FoundLabel): Expression = {
    val more = label.moreKeys(common).map { case (_, right, to) => right -> to }
    struct(label, rowOf(label), more, Literal(null, LongType))
  }

  private def empty(label: FoundLabel): Expression = Literal(null, event(label).dataType)

  private def struct(
      label: FoundLabel,
      row: Expression,
      more: Seq[(Expression, DataType)],
      touch: Expression
  ): Expression = {
    val keys = if (more.isEmpty) Nil else Seq("keys" -> bytes(more))
    val touches = if (label.isAttributed) Seq("touch" -> touch) else Nil
    CreateNamedStruct((Seq("row" -> row) ++ keys ++ touches).flatMap { case (name, value) =>
      Seq(Literal(name), value)
    })
  }

  /** Touches have the keys of impressions, so it has all their values, too. */
  private def commonType(left: Attribute): DataType =
    (left +: labels.map(_.key(left))).reduceLeft { (a, b) =>
      if (a.dataType == b.dataType) a
      else
        WiderKeys
          .common(a.dataType, b.dataType)
          .fold(throw JoinErrors.keyTypesDiffer(a, b))(a.withDataType)
    }.dataType
}

private[examples] object LabelUnion {
  val Time: String = OwnNames.of("time")
  val Hash: String = OwnNames.of("touch")

  /** Places in an element of the join's group, which begins with the time, and in the struct of a label. */
  val FirstLabel = 1
  val RowPlace = 0
  val KeysPlace = 1

  /** Key columns as they are compared. */
  def bytes(keys: Seq[(Expression, DataType)]): Expression =
    KeyBytes(keys.map { case (key, to) => cast(key, to) })

  private def cast(key: Expression, to: DataType): Expression =
    if (key.dataType == to) key else Cast(key, to, ansiEnabled = true)
}

/** Key columns as bytes. Equal bytes are equal keys, by the join's own rule: -0.0 is 0.0, and all NaN are one.
  * It is null if a column is.
  */
case class KeyBytes(children: Seq[Expression]) extends Expression with CodegenFallback with NonSQLExpression {
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = children.exists(_.nullable)

  @transient private lazy val encoder =
    new KeyEncoder(children.indices.toArray, children.map(_.dataType).toArray)
  @transient private lazy val values = new GenericInternalRow(children.size)

  override def eval(input: InternalRow): Any = {
    var i = 0
    while (i < children.size) {
      values.update(i, children(i).eval(input))
      i += 1
    }
    val length = encoder.encode(values)
    if (length == 0) null else java.util.Arrays.copyOf(encoder.bytes, length)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): KeyBytes =
    copy(newChildren)
}
