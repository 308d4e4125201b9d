package io.tailrace.state

import java.util.UUID

import org.apache.spark.sql.tailrace.StateStoreId

/** The place of a join's state, if its number of partitions has changed. The partitions of each number have
  * directories of their own, so that the previous state stays whole until the query's offset log names the
  * new number:
  *
  * {{{
  *   state/0/tailrace-join.json        4 partitions: default, 16 partitions: of-16-5f0c2a91
  *   state/0/<partition>/7.1-...       the state of 4 partitions
  *   state/0/<partition>/of-16-5f0c2a91/7.1-...
  * }}}
  *
  * @param store  the name of the directory
  * @param cutOff the batch that had begun with another number
  */
final case class StateLayout(partitions: Int, store: String, cutOff: Option[CutOffBatch] = None)

/** A batch that had begun when the number of partitions changed. It must give the rows that it would have given
  * before, because a sink may have them already.
  *
  * @param partitions the number that decides which rows it gives
  */
final case class CutOffBatch(batch: Long, partitions: Int)

object StateLayout {

  /** The store's name in a checkpoint whose number of partitions has never changed. It has no directory. */
  val FirstStore: String = StateStoreId.DEFAULT_STORE_NAME

  /** The names of others begin with it. */
  private[tailrace] val Prefix = "of-"

  /** A new layout for a number of partitions. */
  def of(partitions: Int, cutOff: Option[CutOffBatch]): StateLayout =
    StateLayout(partitions, s"$Prefix$partitions-${UUID.randomUUID.toString.take(8)}", cutOff)
}
