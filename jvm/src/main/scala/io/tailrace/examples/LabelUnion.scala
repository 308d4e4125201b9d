package io.tailrace.examples

import java.util.Locale

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, Union}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.tailrace.{SparkPlans, StreamWatermarks}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, Dataset}
import org.apache.spark.unsafe.Platform

import io.tailrace.common.{Arguments, EventTimes, OrderedBytes, OwnNames}
import io.tailrace.join.{JoinColumns, JoinErrors, WiderKeys}
import io.tailrace.label.{JoinWindow, MatchPolicy, OneGroup}
import io.tailrace.state.{KeyDecoder, KeyEncoder}

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
    // The touches of a batch don't have it yet.
    val hash = lefts.lift(impressions.output.size).getOrElse(touchHash(lefts))
    time +: labels.map { label =>
      if (!label.isAttributed) empty(label)
      else {
        val more = label.moreKeys(common).map { case (left, _, to) => now(left) -> to }
        struct(label, Literal(null, rowOf(label).dataType), more, hash)
      }
    }
  }

  /** Appends the hash of an impression as it arrived. After a change of columns the hash would differ from that of
    * its touch.
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

/** A column of [[KeyBytes]], with the types of all of them. */
case class KeyOfBytes(child: Expression, types: Seq[DataType], place: Int)
    extends UnaryExpression
    with CodegenFallback
    with NonSQLExpression {
  override def dataType: DataType = types(place)
  override def nullable: Boolean = true

  @transient private lazy val decoder = new KeyDecoder(types.toArray)

  override protected def nullSafeEval(bytes: Any): Any =
    decoder.decode(bytes.asInstanceOf[Array[Byte]]).get(place, dataType)

  override protected def withNewChildInternal(newChild: Expression): KeyOfBytes = copy(child = newChild)
}

/** A label as a user has given it.
  *
  * @param where the condition, by columns of the plan
  */
private[tailrace] final case class GivenLabel(
    frame: Dataset[_],
    plan: LogicalPlan,
    label: ExampleLabel,
    where: Option[Expression]
) {

  /** A literal as a time of the session, in microseconds; none if it can't be read as one. */
  def micros(literal: Column, kind: DataType): Option[Long] =
    SparkPlans.analyzed(frame.select(literal.try_cast(kind))) match {
      case Project(Seq(Alias(time, _)), _) => Option(time.eval()).map(_.asInstanceOf[Long])
      case other => throw new IllegalStateException(s"not a literal: $other")
    }
}

private[tailrace] object GivenLabel {
  def of(frame: Dataset[_], label: ExampleLabel): GivenLabel = {
    val plan = SparkPlans.analyzed(frame)
    label.where.fold(GivenLabel(frame, plan, label, None)) { where =>
      val filtered = Conditions.read(label.call, "where", where, plan.output.map(_.name))(
        SparkPlans.analyzed(frame.where(where))
      )
      val own = filtered.collect { case node if !plan.exists(_ eq node) => node }
      if (!own.forall(_.expressions.forall(Conditions.isFixed)))
        throw new Arguments(label.call)
          .invalid("where", where, "a condition whose value is the same each time it is evaluated")
      filtered match {
        case Filter(condition, child) if child eq plan => GivenLabel(frame, plan, label, Some(condition))
        // Spark needs more than a filter for it: a plan of its own.
        case filtered => GivenLabel(frame, filtered, label, None)
      }
    }
  }
}

/** A label with its columns.
  *
  * @param on       pairs of key columns (impressions, label)
  * @param where    which rows of the plan are events of the label; none: all
  * @param window   of this label
  * @param form     of its column, without its attribution
  * @param since    microseconds
  */
private[examples] final case class FoundLabel(
    label: ExampleLabel,
    plan: LogicalPlan,
    on: Seq[(Attribute, Attribute)],
    time: Attribute,
    where: Option[Expression],
    window: JoinWindow,
    form: OneGroup,
    attribution: Option[Attribution],
    since: Option[Long]
) {
  def isAttributed: Boolean = attribution.nonEmpty

  /** The fields of a row that are emitted. */
  def row: Seq[Attribute] = JoinColumns.payload(plan.output, on.map(_._2))

  /** The key columns that the join doesn't have: pairs, each with the type in which both sides are compared. */
  def moreKeys(common: Seq[Attribute]): Seq[(Attribute, Attribute, DataType)] =
    on.filterNot { case (left, _) => common.exists(_.exprId == left.exprId) }.map { case (left, right) =>
      (left, right, WiderKeys.common(left.dataType, right.dataType).getOrElse(left.dataType))
    }

  /** The label's column for a key column of the impressions. */
  def key(left: Attribute): Attribute = on.collectFirst { case (l, r) if l.exprId == left.exprId => r }.get

  /** Pinned settings: keys and touches that are in the state have no meaning under other ones. */
  def bound(common: Seq[Attribute]): String = {
    val more = moreKeys(common).map { case (left, _, to) => s"${left.name} ${to.sql}" }
    val keys = if (more.isEmpty) "no further keys" else s"further keys ${more.mkString(", ")}"
    s"$keys, ${label.attribution.fold("not attributed")(rule => s"attribution ${rule.stored}")}"
  }

  /** The pinned settings of how events are shared: emitted impressions have their share by them.
    *
    * @return none without an attribution
    */
  def boundCredits: Option[String] = Option.when(isAttributed) {
    val from = since.fold("")(micros => s", since ${EventTimes.iso(micros)}")
    s"before ${window.before} microseconds, after ${window.after} microseconds$from"
  }

  /** The window that the join needs for this label. */
  def joinWindow: JoinWindow = if (isAttributed) window.withRivals else window

  /** The stream that it is of: those with the same watermark are one. */
  def stream: Set[java.util.UUID] = StreamWatermarks.nodesIn(plan)

  /** @param i      its number among the labels
    * @param keys   of the join
    * @param beside the other labels of its stream
    */
  def rule(i: Int, keys: Seq[Attribute], beside: Set[String]): LabelRule =
    LabelRule(
      label.name,
      LabelUnion.FirstLabel + i,
      DataTypeUtils.fromAttributes(row),
      window,
      form.policy,
      form.maxMatches,
      moreKeys(keys).map { case (left, _, to) => left.name -> to },
      attribution,
      since,
      beside
    )
}

/** The elements of a group that belong to one label, and the label's columns.
  *
  * @param name        of its column
  * @param place       of the label's struct in an element
  * @param row         the emitted form of an event
  * @param window      of the label, inside that of the join
  * @param maxMatches  if there is a cap, an additional column says whether it has cut the label
  * @param keys        the impressions' columns that are keys of this label and not of the join, each with the type in
  *                    which both sides are compared
  * @param attribution to which impression an event is credited; none: to each
  * @param since       impressions before it, in microseconds, have null in the label's column
  * @param beside      the other labels of its stream
  */
private[examples] final case class LabelRule(
    name: String,
    place: Int,
    row: StructType,
    window: JoinWindow,
    policy: MatchPolicy,
    maxMatches: Option[Int],
    keys: Seq[(String, DataType)],
    attribution: Option[Attribution],
    since: Option[Long],
    beside: Set[String]
) {

  /** The window that the join needs for this label. */
  def joinWindow: JoinWindow = if (attribution.isEmpty) window else window.withRivals

  /** In the struct, of the hash of a touch. */
  def touchPlace: Int = (if (keys.isEmpty) LabelUnion.RowPlace else LabelUnion.KeysPlace) + 1

  /** The fields of the struct. */
  def structSize: Int = touchPlace + (if (attribution.isEmpty) 0 else 1)

  def isShared: Boolean = attribution.exists(_.isShared)

  def columnType: ArrayType =
    ArrayType(StructType(row ++ Option.when(isShared)(LabelRule.Credit)), containsNull = false)

  def fields: Seq[StructField] =
    StructField(name, columnType, nullable = since.nonEmpty) +:
      maxMatches.toSeq.map(_ => StructField(LabelRule.truncated(name), BooleanType, nullable = false))

  /** In `explain`, by the names of the arguments. */
  def text: String = {
    val cap = maxMatches.fold("")(n => s" max_matches=$n")
    s"$name($window match=${policy.name}$cap${attribution.fold("")(a => s" attribution=$a")})"
  }
}

private[examples] object LabelRule {

  /** The field that follows an event's columns, if its credit is shared. */
  val Credit: StructField = StructField("credit", DecimalType(10, 9), nullable = false)

  def truncated(label: String): String = s"${label}_truncated"
}

/** The hash of an impression, which orders impressions of one time. Its columns may be in any order, and a
  * missing column is like a null one, so an added column changes no hash. Impressions that differ anywhere have the
  * same hash only by chance: each column is hashed as bytes from which its value could be read again.
  *
  * It is one expression, however many columns there are: the code that Spark generates for a tree of expressions would
  * be as deep as the number of columns.
  *
  * @param children the columns
  * @param names    of the columns. Those that differ only in case are distinguished by their order
  */
case class ImpressionHash(children: Seq[Expression], names: Seq[String])
    extends Expression
    with CodegenFallback
    with NonSQLExpression {
  override def dataType: DataType = LongType
  override def nullable: Boolean = false

  @transient private lazy val columns = {
    val folded = names.map(_.toLowerCase(Locale.ROOT))
    val prefixes = folded.zipWithIndex.map { case (name, i) =>
      val bytes = new OrderedBytes
      bytes.putBytes(name.getBytes(java.nio.charset.StandardCharsets.UTF_8))
      bytes.putInt32(folded.take(i).count(_ == name))
      bytes.toByteArray
    }
    prefixes.zip(children.map(child => ContentBytes.of(child.dataType))).toArray
  }
  @transient private lazy val value = new GenericInternalRow(1)
  @transient private lazy val out = new OrderedBytes

  override def eval(input: InternalRow): Any = {
    var hash = 0L
    var i = 0
    while (i < columns.length) {
      val of = children(i).eval(input)
      if (of != null) {
        val (prefix, write) = columns(i)
        value.update(0, of)
        out.reset()
        out.putBytes(prefix)
        write(value, 0, out)
        hash ^= XXH64.hashUnsafeBytes(out.bytes, Platform.BYTE_ARRAY_OFFSET.toLong, out.length, 0L)
      }
      i += 1
    }
    hash
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): ImpressionHash =
    copy(newChildren)
}

/** Values as bytes from which they could be read again: different values have different bytes, also if they differ in a
  * null inside, or in the sign of a zero. All NaN are one value, as everywhere in Spark. A value in a wider type
  * has the same bytes.
  */
private[examples] object ContentBytes {
  type Writer = (SpecializedGetters, Int, OrderedBytes) => Unit

  /** Writes a value that isn't null. */
  def of(dataType: DataType): Writer = dataType match {
    case NullType => (_, _, _) => ()
    case BooleanType => (row, i, out) => out.putBoolean(row.getBoolean(i))
    case ByteType => (row, i, out) => out.putInt64(row.getByte(i).toLong)
    case ShortType => (row, i, out) => out.putInt64(row.getShort(i).toLong)
    case IntegerType | DateType | _: YearMonthIntervalType =>
      (row, i, out) => out.putInt64(row.getInt(i).toLong)
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
      (row, i, out) => out.putInt64(row.getLong(i))
    case FloatType => (row, i, out) => putDouble(row.getFloat(i).toDouble, out)
    case DoubleType => (row, i, out) => putDouble(row.getDouble(i), out)
    case d: DecimalType =>
      (row, i, out) => {
        val value = row.getDecimal(i, d.precision, d.scale).toJavaBigDecimal.stripTrailingZeros
        out.putInt32(value.scale)
        out.putBytes(value.unscaledValue.toByteArray)
      }
    // In any collation: values that are equal in it may have different bytes.
    case _: StringType => (row, i, out) => out.putBytes(row.getUTF8String(i).getBytes)
    case BinaryType => (row, i, out) => out.putBytes(row.getBinary(i))
    case CalendarIntervalType =>
      (row, i, out) => {
        val interval = row.getInterval(i)
        out.putInt32(interval.months)
        out.putInt32(interval.days)
        out.putInt64(interval.microseconds)
      }
    case VariantType =>
      (row, i, out) => {
        val variant = row.getVariant(i)
        out.putBytes(variant.getMetadata)
        out.putBytes(variant.getValue)
      }
    case StructType(fields) =>
      val parts = fields.map(field => nullable(field.dataType))
      (row, i, out) => {
        val struct = row.getStruct(i, parts.length)
        parts.indices.foreach(field => parts(field)(struct, field, out))
      }
    case ArrayType(element, _) =>
      val part = nullable(element)
      (row, i, out) => {
        val array = row.getArray(i)
        out.putInt32(array.numElements())
        (0 until array.numElements()).foreach(part(array, _, out))
      }
    case MapType(key, item, _) =>
      val (keys, items) = (nullable(key), nullable(item))
      (row, i, out) => {
        val map = row.getMap(i)
        out.putInt32(map.numElements())
        (0 until map.numElements()).foreach { entry =>
          keys(map.keyArray(), entry, out)
          items(map.valueArray(), entry, out)
        }
      }
    case udt: UserDefinedType[_] => of(udt.sqlType)
    // A type of a later Spark version: as in a row.
    case other =>
      val one = new GenericInternalRow(1)
      val row = UnsafeProjection.create(Array(other))
      (from, i, out) => {
        one.update(0, from.get(i, other))
        out.putBytes(row(one).getBytes)
      }
  }

  private def nullable(dataType: DataType): Writer = {
    val write = of(dataType)
    (row, i, out) =>
      if (row.isNullAt(i)) out.putByte(0)
      else {
        out.putByte(1)
        write(row, i, out)
      }
  }

  /** Differs from a key, in which minus zero is zero. */
  private def putDouble(value: Double, out: OrderedBytes): Unit =
    out.putInt64(java.lang.Double.doubleToLongBits(value))
}
