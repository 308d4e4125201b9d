package io.tailrace.exchange

import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{col, unix_micros}
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.WatermarkRules.{behind, ofMillis, saturatingAdd}
import io.tailrace.inspect.StateColumns
import io.tailrace.join.JoinCheckpoint

/** Pairs in one window that eager matching hasn't made, because the right row came when the window of the left one had
  * closed, though that still waited for the next release step. The state says of no right row when it came; to match the
  * rows anew, as an import does, would make these pairs.
  */
private[exchange] object MissedMatches {

  /** @param left        the left rows that wait; `right` and `matches` are the other tables of the export
    * @param watermarkMs of the next batch
    */
  def count(
      left: DataFrame,
      right: DataFrame,
      matches: DataFrame,
      columns: StateColumns,
      settings: Map[String, String],
      watermarkMs: Long
  ): Long = {
    def duration(name: String) = JoinCheckpoint.duration(settings, name).get
    def at(side: String, name: String): Column = col(s"$side.${quoteIdentifier(name)}")
    def micros(side: String, time: String): Column = unix_micros(at(side, settings(time)))
    val (before, after) = (duration(JoinCheckpoint.Before), duration(JoinCheckpoint.After))
    // Those of later left rows can't be missing.
    val closed = behind(ofMillis(Some(watermarkMs)), after)
    val lefts = left.as("l").where(micros("l", JoinCheckpoint.LeftTime) <= closed)
    val gone = matches.where("NOT right_in_state").dropDuplicates("partition", "right_seq").select("right.*")
    val rights = right.unionByName(gone).as("r")
    val distance = micros("r", JoinCheckpoint.RightTime) - micros("l", JoinCheckpoint.LeftTime)
    val isMatch = columns.key
      .map(_.name)
      .zip(columns.rightKeys)
      .map { case (leftName, rightName) => at("l", leftName) === at("r", rightName) }
      .reduce(_ && _) && distance >= saturatingAdd(0L, -before) && distance <= after
    val made =
      matches.where(unix_micros(col(s"left.${quoteIdentifier(settings(JoinCheckpoint.LeftTime))}")) <= closed)
    lefts.join(rights, isMatch).count() - made.count()
  }
}
