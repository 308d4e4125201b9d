package io.tailrace.join

import java.util.{LinkedHashMap, Map => JavaMap}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import io.tailrace.common.Side
import io.tailrace.state.{RowShapes, Section, StoreKind, ValueChange}

/** Conversion of buffered rows to the columns of a query that resumes with other columns. Columns are known by their
  * names:
  *
  * {{{
  *   buffered rows      user STRING   price INT      note STRING
  *   the query now      price BIGINT  user STRING    city STRING
  *   emitted            as BIGINT     as it is       null          note is left out
  * }}}
  *
  * Fields of structs, elements of arrays and values of maps change in the same way. A type may become one that
  * has all of its values.
  *
  * [[tell]] decides whether a query may go from one start's columns to the next one's. [[expressions]] reads a row by the
  * schema that it was written with, which may be several starts older. Such a row may have a column or a field of
  * the right name in a type that doesn't fit, because it was dropped and added again meanwhile. Then that column or
  * field is null, and everything around it keeps its value.
  */
object ColumnChanges {

  /** @param refused  columns whose type can't change so, as sentences; then the query can't resume
    * @param told     consequences for buffered rows, as phrases; none if nothing changes for them
    * @param lost     columns and fields that are null because their old type doesn't fit, as phrases. Each is part of a
    *                 refused column if the rows are of the previous start; those of earlier starts are read so
    */
  final case class Told(refused: Seq[String], told: Seq[String], lost: Seq[String] = Nil)

  /** The consequences of a change from some columns to others. */
  def tell(side: String, from: StructType, to: StructType): Told = {
    val pairs = paired(from, to)
    val misfit = pairs.collect { case (now, Some(i)) =>
      (now, from(i), misfits(now.name, from(i).dataType, now.dataType))
    }
    val refused = misfit.collect {
      case (now, was, all) if all.nonEmpty =>
        s"$side column `${now.name}` was ${was.dataType.sql} and is now ${now.dataType.sql}, which doesn't " +
          "have all of its values"
    }
    val kept = pairs.flatMap(_._2).toSet
    val added = pairs.collect { case (now, None) => s"$side column `${now.name}` is null" }
    val dropped = from.indices.filterNot(kept).map(i => s"$side column `${from(i).name}` is left out")
    val wider = pairs.collect {
      case (now, Some(i)) if !DataTypeUtils.sameType(from(i).dataType, now.dataType) =>
        s"$side column `${now.name}` becomes ${now.dataType.sql}"
    }
    val lost = misfit.flatMap(_._3).map { case (path, was) =>
      s"$side column `$path` is null in those that have it as ${was.sql}"
    }
    Told(refused, added ++ dropped ++ wider, lost)
  }

  /** The columns, and the fields at any depth, whose values don't fit into the new type, with their old types. */
  private def misfits(path: String, from: DataType, to: DataType): Seq[(String, DataType)] =
    (from, to) match {
      case _ if widened(probe, from, to).isEmpty => Seq(path -> from)
      case (old: StructType, now: StructType) =>
        paired(old, now).flatMap { case (field, found) =>
          found.toSeq.flatMap(i => misfits(s"$path.${field.name}", old(i).dataType, field.dataType))
        }
      case (ArrayType(old, _), ArrayType(now, _)) => misfits(path, old, now)
      case (MapType(_, old, _), MapType(_, now, _)) => misfits(path, old, now)
      case _ => Nil
    }

  /** The new columns, of a row with the old ones. A column or a field whose old type doesn't fit is null: it was
    * dropped and came again as another one.
    */
  def expressions(from: StructType, to: StructType): Seq[Expression] = paired(from, to).map {
    case (now, found) =>
      orNull(found, from, now)(i => BoundReference(i, from(i).dataType, nullable = true))
  }

  private def orNull(found: Option[Int], from: StructType, now: StructField)(
      value: Int => Expression
  ): Expression = found
    .flatMap(i => widened(value(i), from(i).dataType, now.dataType))
    .getOrElse(Literal(null, now.dataType))

  /** Each new field with the place of the old one of its name. Of fields of one name, the first is the first. */
  private def paired(from: StructType, to: StructType): Seq[(StructField, Option[Int])] = {
    val exact = from.indices.groupBy(from(_).name)
    val anyCase = from.indices.groupBy(i => folded(from(i).name))
    val nowNames = to.map(_.name).toSet
    to.indices.map { i =>
      val name = to(i).name
      val nth = to.take(i).count(_.name == name)
      // A name that has only changed its case is the same one in Spark.
      def otherCase =
        anyCase.get(folded(name)).filter(_.size == 1).map(_.head).filterNot(j => nowNames(from(j).name))
      to(i) -> exact.get(name).flatMap(_.lift(nth)).orElse(otherCase)
    }
  }

  private def folded(name: String): String = name.toLowerCase(java.util.Locale.ROOT)

  // Only whether there is an expression counts.
  private def probe: Expression = Literal(null, NullType)

  private val IntegralDigits: Map[DataType, Int] =
    Map(ByteType -> 3, ShortType -> 5, IntegerType -> 10, LongType -> 19)

  /** The value in the new type; none if that can't hold it. A struct always becomes another one: a field of it that can't
    * is null.
    */
  private def widened(value: Expression, from: DataType, to: DataType): Option[Expression] =
    (from, to) match {
      case _ if DataTypeUtils.sameType(from, to) => Some(value)
      case (old: StringType, now: StringType) => Option.when(holds(old, now))(value)
      case (old, now) if IntegralDigits.contains(old) && IntegralDigits.contains(now) =>
        Option.when(IntegralDigits(old) < IntegralDigits(now))(cast(value, to))
      case (FloatType | ByteType | ShortType | IntegerType, DoubleType) => Some(cast(value, to))
      case (old: DecimalType, now: DecimalType) =>
        val holds = now.scale >= old.scale && now.precision - now.scale >= old.precision - old.scale
        Option.when(holds)(cast(value, to))
      case (old, now: DecimalType) if IntegralDigits.contains(old) =>
        Option.when(now.precision - now.scale >= IntegralDigits(old))(cast(value, to))
      case (old: StructType, now: StructType) => Some(struct(value, old, now))
      case (ArrayType(old, _), ArrayType(now, _)) =>
        val element = variable("element", old)
        widened(element, old, now).map(body => ArrayTransform(value, LambdaFunction(body, Seq(element))))
      case (MapType(oldKey, old, _), MapType(newKey, now, _)) if DataTypeUtils.sameType(oldKey, newKey) =>
        val (key, item) = (variable("key", oldKey), variable("value", old))
        widened(item, old, now).map(body => TransformValues(value, LambdaFunction(body, Seq(key, item))))
      case _ => None
    }

  private def cast(value: Expression, to: DataType): Expression = Cast(value, to, ansiEnabled = false)

  private def variable(name: String, dataType: DataType): NamedLambdaVariable =
    NamedLambdaVariable(name, dataType, nullable = true)

  private def struct(value: Expression, from: StructType, to: StructType): Expression = {
    val named = paired(from, to).flatMap { case (now, found) =>
      Seq(Literal(now.name), orNull(found, from, now)(GetStructField(value, _)))
    }
    If(IsNull(value), Literal(null, to), CreateNamedStruct(named))
  }

  /** Lengths are those of a column's values. */
  private def holds(from: StringType, to: StringType): Boolean = (from, to) match {
    case (old: VarcharType, now: VarcharType) => old.length <= now.length
    case (old: CharType, now: VarcharType) => old.length <= now.length
    case (_, _: CharType | _: VarcharType) => false
    case _ => true
  }
}

/** True if a row of the state has some columns. Names in a checkpoint may be read wrongly, and a row that is read
  * by other columns than it has would be read beyond its end.
  *
  * It finds what Spark's own check finds (`UnsafeRowUtils.validateStructuralIntegrityWithReason`), which costs
  * several times what the reading of the row does, and refuses each null interval.
  */
final class RowFit(columns: StructType) {
  private val count = columns.size
  private val words = UnsafeRow.calculateBitSetWidthInBytes(count) / 8
  private val fixed = 8L * (words + count)
  private val types = columns.map(_.dataType).toArray
  private val isVariable = types.map(!UnsafeRow.isFixedLength(_))
  private val unused = types.map(RowFit.unusedBits)

  // A null of these types keeps its place in the row.
  private val keepsPlace = types.map(UnsafeRowUtils.avoidSetNullAt)
  private val unusedNulls = if (count % 64 == 0) 0L else -1L << count

  /** The reason why a row doesn't have these columns. */
  def misfit(row: UnsafeRow): Option[String] =
    if (row.getSizeInBytes < fixed) Some(s"it has fewer than $count columns")
    else if (count > 0 && (word(row, words - 1) & unusedNulls) != 0)
      Some(s"it has more than $count columns")
    else {
      var end = fixed
      var i = 0
      while (i < count && fits(row, i)) {
        end += variableBytes(row, i)
        i += 1
      }
      if (i < count) Some(s"column ${columns(i).name} has no value of type ${types(i).sql}")
      else Option.when(end != row.getSizeInBytes)(s"its columns have $end bytes of ${row.getSizeInBytes}")
    }

  private def fits(row: UnsafeRow, column: Int): Boolean = {
    val value = word(row, words + column)
    if (isNull(row, column)) value == 0 || (keepsPlace(column) && isInside(row, value))
    else if (isVariable(column)) isInside(row, value)
    else (value & unused(column)) == 0
  }

  /** Behind the columns of fixed length, where each value has whole words. */
  private def variableBytes(row: UnsafeRow, column: Int): Long = {
    val value = word(row, words + column)
    if (!isVariable(column) || value == 0) 0L
    else if (keepsPlace(column)) 16L
    else ((value & 0xffffffffL) + 7) & -8L
  }

  private def isNull(row: UnsafeRow, column: Int): Boolean =
    (word(row, column >> 6) >>> column & 1) != 0

  private def word(row: UnsafeRow, number: Int): Long =
    Platform.getLong(row.getBaseObject, row.getBaseOffset + 8L * number)

  /** @param place of a value: where it begins, and how long it is */
  private def isInside(row: UnsafeRow, place: Long): Boolean = {
    val (offset, size) = (place >>> 32, place & 0xffffffffL)
    offset >= fixed && offset + size <= row.getSizeInBytes
  }
}

private object RowFit {

  /** Those of the eight bytes of a value in a row that are always zero. */
  private def unusedBits(of: DataType): Long = of match {
    case BooleanType => -1L << 1
    case ByteType => -1L << 8
    case ShortType => -1L << 16
    case IntegerType | FloatType | DateType | _: YearMonthIntervalType => -1L << 32
    case _ => 0L
  }
}

/** The columns of a join's rows in the state, as Spark's JSON of a schema, without what doesn't change the bytes
  * of a row: which may be null, metadata, names of user-defined types.
  *
  * @param left  of left rows
  * @param right of right rows, without their keys
  */
final case class JoinSchema(left: String, right: String) {
  def leftColumns: StructType = JoinSchema.columns(left)
  def rightColumns: StructType = JoinSchema.columns(right)
}

object JoinSchema {

  /** @param right without the keys */
  def of(left: StructType, right: StructType): JoinSchema =
    JoinSchema(SparkPlans.asStored(left).json, SparkPlans.asStored(right).json)

  private def columns(json: String): StructType = DataType.fromJson(json).asInstanceOf[StructType]
}

/** The schemas that a join's rows have had.
  *
  * @param written by their numbers
  */
final class JoinShapes(written: Seq[JoinSchema], override val newest: Int) extends RowShapes {
  import JoinShapes._

  @transient private lazy val schemas = written.map(s => Columns(s.leftColumns, s.rightColumns))

  override def change(section: Section): ValueChange =
    if (section.schema == newest) null
    else {
      if (section.schema >= schemas.size) throw ValueChange.unknown(section, schemas.size)
      // The values of matches are right rows, those of rows that have been emitted left ones. Marks have none.
      val side = section.kind match {
        case StoreKind.JoinedIndicator => Some(Side.Right)
        case StoreKind.LeftOut => Some(Side.Left)
        case kind => kind.side
      }
      def of(columns: Columns) = if (side.contains(Side.Left)) columns.left else columns.right
      side.map(_ => (of(schemas(section.schema)), of(schemas(newest)))).filter(s => s._1 != s._2) match {
        // Eager matching keeps the keys of left rows again, without the rows.
        case Some((from, to)) if section.kind == StoreKind.LeftKeySorted =>
          new UnlessEmpty(changeOf(from, to))
        case Some((from, to)) => changeOf(from, to)
        case None => null
      }
    }
}

object JoinShapes {
  private final case class Columns(left: StructType, right: StructType)

  /** @return [[RowShapes.One]] if the columns have never changed */
  private[join] def of(schemas: Seq[JoinSchema], newest: Int): RowShapes =
    if (schemas.size <= 1) RowShapes.One else new JoinShapes(schemas, newest)

  /** To compile a projection costs more than to read a small section, and one is of use to one thread. */
  private val ofThread = ThreadLocal.withInitial[RecentChanges](() => new RecentChanges)

  private def changeOf(from: StructType, to: StructType): ValueChange =
    ofThread.get.computeIfAbsent((from, to), _ => new ColumnChange(from, to))

  private final class RecentChanges
      extends LinkedHashMap[(StructType, StructType), ValueChange](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[(StructType, StructType), ValueChange]): Boolean =
      size > 16
  }

  private final class ColumnChange(from: StructType, to: StructType) extends ValueChange {
    private val projection = UnsafeProjection.create(ColumnChanges.expressions(from, to))
    private val row = new UnsafeRow(from.size)
    private val fit = new RowFit(from)

    override def apply(base: AnyRef, valueAt: Long, length: Int): UnsafeRow = {
      row.pointTo(base, valueAt, length)
      fit
        .misfit(row)
        .foreach(reason => throw new ValueChange.UnfitException(s"a row doesn't fit: $reason"))
      projection(row)
    }
  }

  private final class UnlessEmpty(change: ValueChange) extends ValueChange {
    private val empty = new UnsafeRow(0)

    override def apply(base: AnyRef, valueAt: Long, length: Int): UnsafeRow =
      if (length > 0) change(base, valueAt, length)
      else {
        empty.pointTo(base, valueAt, 0)
        empty
      }
  }
}
