package io.tailrace.label

import java.lang.{Double => JDouble}

import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeReference,
  Expression,
  Literal,
  UnsafeRow
}
import org.apache.spark.sql.types.{BooleanType, DoubleType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.{Mark, MarkedRows, MemoryErrors}
import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state.{RowLayout, RowMemory}

/** The columns after those of a [[GroupForm]]: three that say which version of its left row an output row is, if there
  * are horizons, the rate of negatives, if it follows from a ratio, then `_mark`, if there are rows other than ordinary
  * ones.
  *
  * @param horizons none: each left row has one version
  * @param rate     [[NegativeBalance.rate]]
  */
private[tailrace] final case class VersionColumns(
    horizons: Option[Horizons],
    hasMarks: Boolean,
    rate: Option[Double] = None
) {
  def size: Int = (if (horizons.isEmpty) 0 else 3) + rate.size + (if (hasMarks) 1 else 0)

  def attributes: Seq[Attribute] = {
    val ofVersion = Seq(
      AttributeReference(Horizons.Horizon, StringType)(),
      AttributeReference(Horizons.Final, BooleanType, nullable = false)(),
      AttributeReference(Horizons.Changed, BooleanType)()
    )
    (if (horizons.isEmpty) Nil else ofVersion) ++
      rate.map(_ => AttributeReference(NegativeBalance.Rate, DoubleType, nullable = false)()) ++
      Option.when(hasMarks)(Mark.attribute())
  }

  /** Their values for a row that belongs to no horizon. */
  def ofNoHorizon(mark: Expression): Seq[Expression] = {
    val ofVersion = Seq(Literal(null, StringType), Literal(true), Literal(null, BooleanType))
    (if (horizons.isEmpty) Nil else ofVersion) ++ rate.map(Literal(_)) ++ Option.when(hasMarks)(mark)
  }
}

/** Writes a row of a grouped join: the left columns, those of its [[GroupForm]], then those of its [[VersionColumns]].
  */
private[tailrace] abstract class GroupWriter(
    columns: JoinColumns,
    version: VersionColumns,
    memory: RowMemory
) extends LeftRowWriter(columns, memory) {
  private val horizons =
    version.horizons.fold(Seq.empty[UTF8String])(_.words.map(UTF8String.fromString)).toArray
  // The number of the first of the version's columns among those that are added.
  private val versionAt = columns.added.size - version.size
  private val rateAt = columns.added.size - (if (version.hasMarks) 2 else 1)
  private var horizon = 0
  private var isCompared = false
  private var isChanged = false
  private var mark: UTF8String = _
  protected var matched: MatchSink = _

  /** The mark of the rows that follow; null: they are ordinary ones. */
  final def markIs(text: UTF8String): Unit = mark = text

  /** Gets the right rows that left rows match, if the form finds them itself; null: nobody asks. */
  final def matchedAre(sink: MatchSink): Unit = matched = sink

  /** The number of right rows the last row has. */
  def lastSize: Int

  /** The number of matches that caps have left out of the last row. */
  def lastLeftOut: Int

  /** Finds what the group has of a left row's matches.
    *
    * @return the number of bytes it takes after the left columns
    */
  protected def find(left: UnsafeRow, leftTime: Long, matches: Matches): Long

  /** Writes what was found into the added columns.
    *
    * @param at where its bytes begin
    */
  protected def writeFound(at: Int): Unit

  /** Sets the version of the rows that follow.
    *
    * @param number     of the horizon; [[GroupWriter.NoHorizon]] for a left row without a time
    * @param hasEarlier whether there is a version before it
    * @param changed    whether it is another one than before
    */
  final def versionIs(number: Int, hasEarlier: Boolean, changed: Boolean): Unit = {
    horizon = number
    isCompared = hasEarlier
    isChanged = changed
  }

  /** @return a row that is valid until the next call */
  final def write(left: UnsafeRow, leftTime: Long, matches: Matches): UnsafeRow = {
    val at = restAt(left)
    val end = at + find(left, leftTime, matches)
    val needed = end + textBytes
    if (needed > LeftRowWriter.MostBytes) throw MemoryErrors.groupTooLarge(lastSize, needed)
    val length = needed.toInt
    ensure(length)
    writeLeft(left)
    writeFound(at)
    if (horizons.nonEmpty) writeVersion(end.toInt)
    version.rate.foreach(rate => putAdded(rateAt, JDouble.doubleToRawLongBits(rate)))
    if (version.hasMarks) writeMark(length)
    written(length)
  }

  private def textBytes: Long = {
    val version = if (horizons.isEmpty || horizon < 0) 0L else RowLayout.padded(horizons(horizon).numBytes)
    version + markBytes
  }

  private def markBytes: Long = if (mark == null) 0L else RowLayout.padded(mark.numBytes)

  /** It is the last one of the row. */
  private def writeMark(end: Int): Unit = {
    val column = columns.added.size - 1
    if (mark == null) writeNull(column) else putText(column, mark, end - markBytes.toInt)
  }

  private def putText(column: Int, text: UTF8String, at: Int): Unit = {
    put(at + RowLayout.padded(text.numBytes).toInt - 8, 0L)
    copy(text.getBaseObject, text.getBaseOffset, at, text.numBytes)
    putAdded(column, offsetAndSize(at, text.numBytes))
  }

  private def writeVersion(textAt: Int): Unit = {
    if (horizon < 0) writeNull(versionAt) else putText(versionAt, horizons(horizon), textAt)
    putFlag(versionAt + 1, horizon < 0 || horizon == horizons.length - 1)
    if (isCompared) putFlag(versionAt + 2, isChanged) else writeNull(versionAt + 2)
  }

  protected final def putFlag(column: Int, value: Boolean): Unit = putAdded(column, if (value) 1L else 0L)
}

object GroupWriter {
  private[label] val NoHorizon = -1
}

/** Writes a pair: the left row, the right row's columns but the keys, then `_mark` if late rows are emitted. */
final class PairWriter(columns: JoinColumns, hasMarks: Boolean) {
  private val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val marked =
    new MarkedRows(StructType(columns.leftSchema.fields ++ columns.payloadSchema.fields))

  /** @return a row that is valid until the next call */
  def write(left: UnsafeRow, right: UnsafeRow): UnsafeRow = {
    val pair = joiner.join(left, right)
    if (hasMarks) marked.ordinary(pair) else pair
  }
}
