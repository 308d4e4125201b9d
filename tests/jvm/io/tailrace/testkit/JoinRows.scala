package io.tailrace.testkit

import java.sql.Timestamp
import java.time.Instant
import java.time.temporal.ChronoUnit

import org.apache.spark.sql.Row

/** A left row: what was served. */
final case class Served(k: String, t: Timestamp, id: Int)

/** A right row: what the user did. */
final case class Engaged(k: String, rt: Timestamp, rid: Int)

/** One row that came out, by the ids of the rows that it was made of.
  *
  * @param key       of the left columns: a late right row carries its own there
  * @param labels    in the order of the group; with how = "inner" the one right row of the pair
  * @param truncated None without a cap on the group
  * @param late      None unless late rows come out
  */
final case class Emitted(
    key: String,
    id: Option[Int],
    labels: Seq[Int],
    truncated: Option[Boolean] = None,
    mark: Option[String] = None
)

object Emitted {
  def of(row: Row): Emitted = {
    def optional[T](name: String): Option[T] =
      if (row.schema.fieldNames.contains(name) && !row.isNullAt(row.fieldIndex(name)))
        Some(row.getAs[T](name))
      else None
    val labels = optional[collection.Seq[Row]]("labels").map(_.map(_.getAs[Int]("rid")).toSeq)
    Emitted(
      row.getAs[String]("k"),
      optional[Int]("id"),
      labels.getOrElse(optional[Int]("rid").toSeq),
      optional[Boolean]("labels_truncated"),
      optional[String]("_mark")
    )
  }

  /** Equal for equal multisets of rows. */
  def sorted(rows: Iterable[Emitted]): Seq[Emitted] = rows.toSeq.sortBy(_.toString)
}

object Times {

  /** Test times are seconds or microseconds after this moment, so that none is near the epoch, which means "none". */
  private val start = Instant.parse("2026-03-01T12:00:00Z")

  def micros(afterStart: Long): Timestamp = Timestamp.from(start.plus(afterStart, ChronoUnit.MICROS))
  def seconds(afterStart: Double): Timestamp = micros((afterStart * 1e6).round)
  def microsOf(t: Timestamp): Long = ChronoUnit.MICROS.between(Instant.EPOCH, t.toInstant)
}
