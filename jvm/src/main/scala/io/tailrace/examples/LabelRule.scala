package io.tailrace.examples

import org.apache.spark.sql.types._

import io.tailrace.label.{JoinWindow, MatchPolicy}

/** Which elements of a group belong to one label, and the label's columns.
  *
  * @param name        of its column
  * @param place       of the label's struct in an element
  * @param row         what comes out of an event
  * @param window      of the label, inside that of the join
  * @param maxMatches  if there is a cap, a column more says whether it has cut the label
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

  /** What an event has behind its columns, if its credit is shared. */
  val Credit: StructField = StructField("credit", DecimalType(10, 9), nullable = false)

  def truncated(label: String): String = s"${label}_truncated"
}
