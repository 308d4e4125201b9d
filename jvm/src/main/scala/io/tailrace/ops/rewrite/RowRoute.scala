package io.tailrace.ops.rewrite

import io.tailrace.state.{LiveSection, LoadedState, RunCursor}

/** Where the rows of a partition go when its state is written anew. One is of one task. */
private[tailrace] trait RowRoute {

  /** Reads the partition's state, before the first row is routed. */
  def begin(state: LoadedState): Unit = ()

  /** @param live  the section that the row is in
    * @param keyed the row itself; for a match, which has no key of its own, its left row
    * @return a partition, or [[RowRoute.Nowhere]]
    */
  def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int

  /** The row's sequence number in its new partition. */
  def seq(of: Long): Long = of

  /** The counts of the route, by names of its own. */
  def counts: Map[String, Long] = Map.empty
}

private[tailrace] object RowRoute {

  /** The row is left out. */
  val Nowhere: Int = -1
}

/** Makes the route of a partition in a task. */
private[tailrace] trait RowRoutes extends Serializable {
  def of(join: JoinState, partition: Int): RowRoute
}
