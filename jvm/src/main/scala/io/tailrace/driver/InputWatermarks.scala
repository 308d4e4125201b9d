package io.tailrace.driver

import java.util.UUID

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamingRun

/** How far the watermarks of a query's inputs have come in one run, in milliseconds. Not for several threads. */
final class InputWatermarks {
  private var inputs = Map.empty[UUID, Option[Long]]

  /** @param seen what the nodes say of the last batch: none, if no row of one has come in it
    * @return of each input; none: it has no watermark yet
    */
  def after(seen: Map[UUID, Option[Long]]): Seq[Option[Long]] = {
    seen.foreach { case (node, ms) =>
      inputs += node -> (inputs.getOrElse(node, None) ++ ms).maxOption
    }
    inputs.values.toSeq
  }
}

object InputWatermarks {

  /** What the nodes of the batch that has just run in this thread say, but for those that follow others. */
  def of(session: SparkSession): Map[UUID, Option[Long]] =
    StreamingRun
      .current(session)
      .watermarkNodes
      .filter {
        case own: DriverWatermarkExec => !own.watermark.followsOthers
        case _ => true
      }
      // A frame that is used twice is two nodes with one id, and each has seen its own rows.
      .groupMapReduce(_.nodeId) { node =>
        val stats = node.eventTimeStats.value
        Option.when(stats.count > 0)(stats.max - node.delayMs)
      }((one, other) => (one ++ other).maxOption)
}
