package io.tailrace.recursion

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{IntegerType, StructType}

import io.tailrace.common.UnsafeRows

/** Where a row that goes round has what the recursion itself needs of it.
  *
  * @param all   the user's columns, then the recursion's own
  * @param keys  ordinals of the columns that tell rows apart, for errors
  * @param depth ordinal of the hop, where the row has it
  * @param path  ordinal of the keys that the row has had so far
  * @param cycle ordinal of the flag that the last of them is there twice
  */
final case class RoundColumns(
    all: Seq[Attribute],
    keys: Seq[Int],
    depth: Option[Int] = None,
    path: Option[Int] = None,
    cycle: Option[Int] = None
)

/** The rules that all tasks of a recursion share. */
private[recursion] final class FixpointRules(
    val settings: RecursionSettings,
    columns: RoundColumns,
    addsDepth: Boolean,
    zone: String,
    val sink: HopSink
) extends Serializable {
  private val cycle = columns.cycle.getOrElse(-1)

  def closesCycle(row: UnsafeRow): Boolean = cycle >= 0 && row.getBoolean(cycle)

  def sample(): RowSample = new RowSample(columns.all, columns.keys, columns.path, zone)

  def toUnsafe(): InternalRow => UnsafeRow = new UnsafeRows(columns.all)

  /** Puts the hop behind a row's columns, if that was asked for. */
  def withDepth(): (UnsafeRow, Int) => InternalRow =
    if (!addsDepth) (row, _) => row
    else {
      val schema = new StructType().add("depth", IntegerType, nullable = false)
      val joiner = GenerateUnsafeRowJoiner.create(DataTypeUtils.fromAttributes(columns.all), schema)
      val depth = new UnsafeRow(1)
      depth.pointTo(new Array[Byte](16), 16)
      (row, hop) => {
        depth.setInt(0, hop)
        joiner.join(row, depth)
      }
    }
}

/** Rows as texts, for errors.
  *
  * @param columns of the rows that go round
  * @param keys    ordinals of those that tell rows apart; none: all of the user's
  */
private[recursion] final class RowSample(
    columns: Seq[Attribute],
    keys: Seq[Int],
    path: Option[Int],
    zone: String
) {
  private def text(ordinal: Int): Expression =
    ToPrettyString(BoundReference(ordinal, columns(ordinal).dataType, nullable = true), Some(zone))

  private lazy val keyTexts = UnsafeProjection.create(keys.map(text))
  private lazy val pathText = UnsafeProjection.create(path.map(text).toSeq)

  def keys(row: UnsafeRow): String = {
    val texts = keyTexts(row)
    keys.indices.map(i => s"${columns(keys(i)).name}=${texts.getUTF8String(i)}").mkString(", ")
  }

  def path(row: UnsafeRow): String = pathText(row).getUTF8String(0).toString
}

private[recursion] object RowSample {

  /** An error is read by people. */
  val Rows = 3
}
