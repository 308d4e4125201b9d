package io.tailrace.join

import java.util.{LinkedHashMap, Map => JavaMap}

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.{DataType, StructType}

import io.tailrace.common.Side
import io.tailrace.state.{RowShapes, Section, StoreKind, ValueChange}

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
