package io.tailrace.exchange

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.tailrace.SparkPlans

/** What is asked of rows before they are written. */
private[exchange] object ReadRows {

  /** Reads each row with all of its columns, as the command that writes them does. @return how many there are */
  def count(rows: DataFrame): Long = SparkPlans.execution(rows).toRdd.count()

  /** A left row comes out at its time.
    *
    * @param time its column
    */
  def checkTimes(left: DataFrame, time: String): Unit = {
    val timeless = left.where(col(quoteIdentifier(time)).isNull).count()
    if (timeless > 0) throw ExchangeErrors.rows(s"$timeless left rows have no time")
  }
}
