package io.tailrace.why

import scala.collection.mutable

import io.tailrace.driver.NextRow
import io.tailrace.inspect.StateColumns
import io.tailrace.join.Side
import io.tailrace.state.{KeyDecoder, LiveSection}

/** Finds rows that wait in a join, and reads as few sections as it can for that.
  *
  * @param partitions of the join, which are opened when their rows are asked for
  */
private[why] final class WaitingRows(
    partitions: Seq[StoredPartition],
    rules: WaitRules,
    columns: StateColumns
) {
  private val keys = new KeyDecoder(columns.key.map(_.dataType).toArray)

  def count(side: String): Long = partitions.map(_.rows(side)).sum

  /** The oldest rows, in the order of time. */
  def oldest(most: Int): Seq[StoredRow] =
    rules.shown.iterator.map(sides => oldest(partitions, sides, most)).find(_.nonEmpty).getOrElse(Nil)

  /** Sections that begin later than the rows that have been found aren't read. */
  private def oldest(of: Seq[StoredPartition], sides: Seq[String], most: Int): Seq[StoredRow] = {
    val found = mutable.PriorityQueue.empty[StoredRow](Ordering.by((row: StoredRow) => (row.time, row.seq)))
    val sections =
      for (partition <- of; side <- sides; live <- partition.sectionsOf(side)) yield partition -> live
    def isFull: Boolean = found.size >= most
    sections.sortBy { case (partition, live) => partition.notBefore(live) }.foreach {
      case (partition, live) =>
        if (!isFull || partition.notBefore(live) <= found.head.time) partition.foreachRow(live) { cursor =>
          val isLater = isFull && cursor.time >= found.head.time
          if (!isLater && isFirstPart(live, cursor.keyBytes)) {
            found += StoredRow.at(partition.number, live.section.kind, cursor)
            if (found.size > most) found.dequeue(): Unit
          }
          // Behind it, all are later.
          !(isLater && live.section.kind.timeSorted)
        }
    }
    found.dequeueAll.reverse.toSeq
  }

  /** The row that leaves next of each partition and side, as far as it can be the next one of all. */
  def next: Seq[NextRow] = {
    val bounds = for {
      partition <- partitions
      side <- rules.shown.head
      time <- partition.sectionsOf(side).map(partition.notBefore).minOption
    } yield (partition, side, needs(partition, side, time).getOrElse(time))
    var least = Long.MaxValue
    bounds.sortBy(_._3).flatMap { case (partition, side, bound) =>
      val rows = if (bound > least) Nil else oldest(Seq(partition), Seq(side), 1)
      rows.map { row =>
        val found = nextRow(row)
        least = Math.min(least, found.needs.getOrElse(row.time))
        found
      }
    }
  }

  /** The first of some rows to be emitted or to be given up. */
  def next(of: Seq[StoredRow]): Option[NextRow] =
    of.filter(row => rules.shown.head.contains(row.side)).map(nextRow).minByOption(_.needs)

  private def nextRow(row: StoredRow): NextRow = {
    val partition = partitions(row.partition)
    NextRow(
      row.time,
      isBound = false,
      row.partition,
      Some(words(row)),
      needs(partition, row.side, row.time)
    )
  }

  private def needs(partition: StoredPartition, side: String, time: Long): Option[Long] =
    rules.leaves(side, time, partition.number, partition.manifest)

  /** The rows of both sides of a key, by time. */
  def ofKey(asked: AskedKey, total: Int): Seq[StoredRow] = {
    val probes = asked.probes(total)
    val found = for {
      partition <- partitions
      probe <- probes.getOrElse(partition.number, Nil)
      live <- Seq(Side.Left, Side.Right).flatMap(partition.sectionsOf)
    } yield {
      val rows = Seq.newBuilder[StoredRow]
      partition.ofKey(live, probe) { cursor =>
        if (isFirstPart(live, cursor.keyBytes))
          rows += StoredRow.at(partition.number, live.section.kind, cursor)
      }
      rows.result()
    }
    found.flatten.sortBy(row => (row.time, row.side, row.seq))
  }

  /** A right row of a hot key is in the state once for each part of the key. */
  private def isFirstPart(live: LiveSection, key: => Array[Byte]): Boolean =
    StoredRow.isLeft(live.section.kind) || columns.part.forall(keys.decodeWhole(key).getInt(_) == 0)

  /** The columns of a row's key; none if one of them is null. */
  def keyOf(row: StoredRow): Option[Map[String, String]] = {
    val bytes = row.keyBytes
    Option.when(bytes.nonEmpty)(KeyText.of(columns, keys.decodeWhole(bytes)))
  }

  private def words(row: StoredRow): String =
    keyOf(row).fold("a key with a null")(_.map { case (name, value) => s"$name=$value" }.mkString(", "))
}
