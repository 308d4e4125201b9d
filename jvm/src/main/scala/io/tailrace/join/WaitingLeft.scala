package io.tailrace.join

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.state.{StoreKind, TailraceStateStore}

/** The buffered left rows of each partition after a micro-batch: each of its tasks adds its own. */
private[tailrace] final class WaitingLeft extends Serializable {
  private val told = new CollectionAccumulator[WaitingIn]

  private def all: Map[Int, WaitingIn] = told.value.asScala.map(one => one.partition -> one).toMap

  /** The time of the oldest one in each partition, if it has one. */
  def now: Map[Int, Option[Long]] = all.view.mapValues(_.times.map(_._1)).toMap

  /** The oldest of all, with its partition. */
  def oldest: Option[(Long, Int)] =
    now.collect { case (partition, Some(time)) => time -> partition }.minOption

  /** The latest time of a buffered row; none: no row is buffered. */
  def newest: Option[Long] = all.values.flatMap(_.times.map(_._2)).maxOption

  /** Left rows up to this time have been emitted everywhere; none: not all partitions have told. */
  def expiredThrough(partitions: Int): Option[Long] = {
    val now = all.values
    Option.when(now.size == partitions)(now.map(_.expiredThrough).min)
  }

  /** @param kind of the store with the left rows */
  def tell(store: TailraceStateStore, kind: StoreKind = StoreKind.LeftTimeSorted): Unit =
    told.add(WaitingIn(store.id.partitionId, timesOf(store, kind), store.expiredThrough))

  /** The state knows the oldest and the newest row of each section, but not which rows up to the expiry were emitted, nor
    * which rows have gone one by one.
    */
  private def timesOf(store: TailraceStateStore, kind: StoreKind): Option[(Long, Long)] = {
    val living = store.sectionsOf(kind).map(_.section).filter(_.liveRows > 0)
    Option.when(living.nonEmpty) {
      living.map(store.expiry.notBefore).min -> living.map(_.maxTime).max
    }
  }
}

/** @param times          not before the first and not after the second one is a left row that waits
  * @param expiredThrough left rows up to this time have been emitted
  */
private[join] final case class WaitingIn(partition: Int, times: Option[(Long, Long)], expiredThrough: Long)

private[tailrace] object WaitingLeft {
  def in(context: SparkContext): WaitingLeft = {
    val waiting = new WaitingLeft
    context.register(waiting.told)
    waiting
  }
}
