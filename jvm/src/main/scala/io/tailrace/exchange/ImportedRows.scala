package io.tailrace.exchange

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{broadcast, col, lit, unix_micros}

import io.tailrace.state.{LateRows, Manifest}

/** The rows that a new state is made of, with the columns of the join's sides in their order.
  *
  * @param emitted left rows that were emitted and may be amended
  * @param right   has the column `behind` after these, if that is there
  * @param behind  the watermark at which a right row was late when it arrived; null if it wasn't late
  * @param beside  the facts in the state besides its rows; none: they are rows of tables
  */
private[exchange] final case class ImportedRows(
    left: DataFrame,
    right: DataFrame,
    emitted: Option[DataFrame] = None,
    behind: Option[String] = None,
    beside: Option[CarriedState] = None
) {

  /** The versions in which right rows count as late. In the exported query, each was made by a micro-batch; the
    * number of versions in between has no meaning.
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

  /** The left rows with the columns that [[io.tailrace.join.ImportableJoin.importing]] appends. */
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

/** The facts besides its rows that a new state takes from the exported one.
  *
  * @param operatorTime none: the join doesn't use the previous one
  * @param amendsAfter  none: no left rows are amended
  */
private[exchange] final case class CarriedState(
    expiredThrough: Long,
    operatorTime: Option[Long],
    amendsAfter: Option[Long]
) {

  /** @param oldest time of the left rows. An edited row may be older than all rows that haven't been emitted: it is
    *               buffered, too
    */
  def restated(manifest: Manifest, oldest: Option[Long], late: Seq[LateRows]): Manifest = manifest.copy(
    expiredThrough = Math.min(expiredThrough, oldest.fold(Long.MaxValue)(_ - 1)),
    rightExpiredThrough = operatorTime.getOrElse(manifest.rightExpiredThrough),
    lateRows = late,
    amendsAfter = amendsAfter
  )
}
