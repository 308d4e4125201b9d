package io.tailrace.replay

import org.apache.spark.sql.types.{BooleanType, StructType}

/** @param name     of the filter's directory in the checkpoint
  * @param disorder how far below the mark, in offsets, a record may come and still be told from its replay
  * @param divert   replays come out too, marked
  */
final case class ReplaySettings(name: String, disorder: Int, divert: Boolean)

object ReplaySettings {

  /** The column that marks replays. */
  val FlagColumn = "replay"

  private[replay] val FlagSchema: StructType = new StructType().add(FlagColumn, BooleanType, nullable = false)
}
