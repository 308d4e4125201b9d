package io.tailrace.recursion

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{IntegerType, StructType}

import io.tailrace.common.{OwnNames, UnsafeRows}

/** The places of the columns that the recursion itself reads in a row that is fed back.
  *
  * @param all   the user's columns, then the recursion's own
  * @param keys  ordinals of the columns that identify a row, for errors
  * @param depth ordinal of the hop, if the row has it
  * @param path  ordinal of the keys that the row has had so far
  * @param cycle ordinal of the flag that the last of these keys is there twice
  */
final case class RoundColumns(
    all: Seq[Attribute],
    keys: Seq[Int],
    depth: Option[Int] = None,
    path: Option[Int] = None,
    cycle: Option[Int] = None
)

private[recursion] object RoundColumns {
  val Depth: String = OwnNames.of("depth")
  val Path: String = OwnNames.of("path")
  val Cycle: String = OwnNames.of("cycle")

  /** Columns that the user hasn't named. */
  val Own: Set[String] = Set(Depth, Path, Cycle)
}

/** The rules that all tasks of a recursion share.
  *
  * @param addsDepth whether the hop is appended to a row's columns when it is emitted
  */
private[recursion] final class RecursionRules(
    val settings: RecursionSettings,
    val columns: RoundColumns,
    addsDepth: Boolean,
    zone: String,
    val sink: HopSink
) extends Serializable {
  private val cycle = columns.cycle.getOrElse(-1)

  def closesCycle(row: UnsafeRow): Boolean = cycle >= 0 && row.getBoolean(cycle)

  def sample(): RowSample = new RowSample(columns, zone)

  def toUnsafe(): InternalRow => UnsafeRow = new UnsafeRows(columns.all)

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

  /** The error of a verdict that is one.
    *
    * @param tooDeep names the rows of the hop before, which each way round knows by its own means
    */
  def error(verdict: Verdict, depth: Int, row: UnsafeRow, tooDeep: => Throwable): Throwable = verdict match {
    case Verdict.TooDeep => tooDeep
    case Verdict.TooMany =>
      RecursionErrors.tooManyRows(settings.maxRows.get, depth, Seq(sample().keys(row)))
    case Verdict.Cycle => RecursionErrors.cycle(sample().path(row))
    case _ => RecursionErrors.runaway(settings.name, depth - 1, sample().keys(row))
  }
}

/** Rows as texts, for errors. */
private[recursion] final class RowSample(columns: RoundColumns, zone: String) {
  private def text(ordinal: Int): Expression =
    ToPrettyString(BoundReference(ordinal, columns.all(ordinal).dataType, nullable = true), Some(zone))

  private lazy val keyTexts = UnsafeProjection.create(columns.keys.map(text))
  private lazy val pathText = UnsafeProjection.create(columns.path.map(text).toSeq)

  def keys(row: UnsafeRow): String = {
    val texts = keyTexts(row)
    columns.keys.zipWithIndex
      .map { case (key, i) => s"${columns.all(key).name}=${texts.getUTF8String(i)}" }
      .mkString(", ")
  }

  def path(row: UnsafeRow): String = pathText(row).getUTF8String(0).toString
}

private[recursion] object RowSample {

  /** The most rows that an error names: people read it. */
  val Rows = 3
}
