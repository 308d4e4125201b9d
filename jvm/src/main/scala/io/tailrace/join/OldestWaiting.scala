package io.tailrace.join

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.state.{StoreKind, TailraceStateStore}

/** The time of the oldest left row that waits in each partition, if one waits: each task of a micro-batch adds
  * its own.
  */
private[tailrace] final class OldestWaiting extends Serializable {
  private val told = new CollectionAccumulator[(Int, Option[Long])]

  def now: Map[Int, Option[Long]] = told.value.asScala.toMap

  /** The oldest of all, with its partition. */
  def oldest: Option[(Long, Int)] =
    now.collect { case (partition, Some(time)) => time -> partition }.minOption

  /** @param kind of the store with the left rows */
  def tell(store: TailraceStateStore, kind: StoreKind = StoreKind.LeftTimeSorted): Unit =
    told.add(store.id.partitionId -> of(store, kind))

  /** The state knows the oldest row of each section, but not which rows up to the expiry have come out, nor which rows
    * have gone one by one.
    */
  private def of(store: TailraceStateStore, kind: StoreKind): Option[Long] =
    store
      .sectionsOf(kind)
      .map(_.section)
      .filter(_.liveRows > 0)
      .map(section => Math.max(section.minTime, store.expiredThrough + 1))
      .minOption
}

private[tailrace] object OldestWaiting {
  def in(context: SparkContext): OldestWaiting = {
    val waiting = new OldestWaiting
    context.register(waiting.told)
    waiting
  }
}
