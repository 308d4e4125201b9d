package io.tailrace.exchange

import java.util.{Locale, UUID}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{col, lit, min, unix_micros}
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.{DataFrame, functions}

import io.tailrace.common.LiteralPath

/** Checks of rows before they are written. */
private[exchange] object ReadRows {

  /** Reads each row with all of its columns, as the command that writes them does. @return how many there are */
  def count(rows: DataFrame): Long = SparkPlans.execution(rows).toRdd.count()

  /** A left row is emitted at its time.
    *
    * @param time its column
    * @return the minimum of all times, in microseconds; none: there are no rows
    */
  def oldest(left: DataFrame, time: String): Option[Long] = {
    val micros = unix_micros(col(quoteIdentifier(time)))
    val found = left.agg(functions.count(lit(1)), functions.count(micros), min(micros)).head()
    val timeless = found.getLong(0) - found.getLong(1)
    if (timeless > 0) throw ExchangeErrors.rows(s"$timeless left rows have no time")
    Option.when(!found.isNullAt(2))(found.getLong(2))
  }

  /** Parquet files, as they are now: Spark would use rows that a session has cached for files that are read in the same
    * way.
    */
  def files(session: SparkSession, path: Path): DataFrame =
    LiteralPath.reader(session.read).option("tailrace.read", UUID.randomUUID.toString).parquet(path.toString)

  /** A name that no column has, whatever its case. */
  def freeName(wish: String, columns: Iterable[String]): String = {
    val taken = columns.map(_.toLowerCase(Locale.ROOT)).toSet
    Iterator.iterate(wish)("_" + _).find(name => !taken(name)).get
  }
}
