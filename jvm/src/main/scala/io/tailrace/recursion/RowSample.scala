package io.tailrace.recursion

import org.apache.spark.sql.catalyst.expressions._

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
