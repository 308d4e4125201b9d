package io.tailrace.exchange

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{broadcast, col, lit, unix_micros}

import io.tailrace.state.{LateRows, Manifest}

/** The rows that a new state is made of, with the columns of the join's sides in their order.
  *
  * @param emitted left rows that were emitted and may be amended
  * @param right   has the column `behind` after these, if that is there
  * @param behind  the watermark that a right row was behind when it came; null if it wasn't late
  * @param beside  what the state says beside its rows; none: they are rows of tables
  */
private[exchange] final case class ImportedRows(
    left: DataFrame,
    right: DataFrame,
    emitted: Option[DataFrame] = None,
    behind: Option[String] = None,
    beside: Option[CarriedState] = None
) {

  /** The versions in which right rows count as late. In the query that they are of, each was made by a micro-batch; how
    * many there were in between says nothing.
    *
    * {{{
    *   _behind   null   12:31   12:31   12:40
    *   version      1       2       2       3
    * }}}
    */
  def lateVersions: Seq[LateRows] = behind.toSeq.flatMap { name =>
    val micros = unix_micros(col(quoteIdentifier(name)))
    val found = right.select(micros).distinct().collect().toSeq.filterNot(_.isNullAt(0)).map(_.getLong(0))
    found.sorted.zipWithIndex.map { case (watermark, i) => LateRows(i + 2L, watermark) }
  }

  /** The left rows with what [[io.tailrace.join.ImportableJoin.importing]] wants behind them. */
  def markedLeft: MarkedRows = {
    val mark = ReadRows.freeName("_emitted", left.columns)
    def marked(rows: DataFrame, isEmitted: Boolean) =
      rows.select(rows.columns.toSeq.map(name => col(quoteIdentifier(name))) :+ lit(isEmitted).as(mark): _*)
    val waiting = marked(left, isEmitted = false)
    MarkedRows(emitted.fold(waiting)(of => waiting.unionByName(marked(of, isEmitted = true))), mark)
  }

  /** The same of the right rows.
    *
    * @param late [[lateVersions]]
    */
  def markedRight(late: Seq[LateRows]): MarkedRows = {
    val mark = ReadRows.freeName("_late_in", right.columns)
    val own = right.columns.toSeq.filterNot(behind.contains).map(name => col(quoteIdentifier(name)))
    if (late.isEmpty) MarkedRows(right.select(own :+ lit(null).cast("bigint").as(mark): _*), mark)
    else {
      val micros = ReadRows.freeName("_micros", mark +: right.columns.toSeq)
      val versions = right.sparkSession
        .createDataFrame(late.map(of => (of.watermark, of.version)))
        .toDF(micros, mark)
      val isSame = unix_micros(col(quoteIdentifier(behind.get))) === col(micros)
      val joined = right.join(broadcast(versions), isSame, "left")
      MarkedRows(joined.select(own :+ col(mark): _*), mark)
    }
  }
}

/** @param mark the last column */
private[exchange] final case class MarkedRows(frame: DataFrame, mark: String)

/** What a new state gets of the one that was exported, beside its rows.
  *
  * @param operatorTime none: the join doesn't look at what it was
  * @param amendsAfter  none: no left rows are amended
  */
private[exchange] final case class CarriedState(
    expiredThrough: Long,
    operatorTime: Option[Long],
    amendsAfter: Option[Long]
) {

  /** @param oldest time of the left rows. One that was edited may be older than all that haven't been emitted: it
    *               waits, too
    */
  def restated(manifest: Manifest, oldest: Option[Long], late: Seq[LateRows]): Manifest = manifest.copy(
    expiredThrough = Math.min(expiredThrough, oldest.fold(Long.MaxValue)(_ - 1)),
    rightExpiredThrough = operatorTime.getOrElse(manifest.rightExpiredThrough),
    lateRows = late,
    amendsAfter = amendsAfter
  )
}
