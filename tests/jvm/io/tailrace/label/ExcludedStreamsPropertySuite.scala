package io.tailrace.label

import java.io.File
import java.sql.Timestamp

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.Row

import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{micros, microsOf}
import io.tailrace.testkit._

/** Joins whose right side stops and comes back at random, against brute force: which rows lack which labels. */
final class ExcludedStreamsPropertySuite extends SparkSuite with SlowSuite {
  private val after = 20000L
  private val limit = 80L * 1000

  private def run(seed: Int): Unit = withClock { (directory: File, clock: ManualClock) =>
    val random = new Random(seed * 7919L + 31)
    def oneOf[T](values: T*): T = values(random.nextInt(values.size))
    val amends = random.nextBoolean()
    val o = options(s"$after microseconds").copy(
      releaseEvery = oneOf(Some("batch"), None, Some("15 milliseconds"), Some("40 milliseconds")),
      onStall = "exclude",
      stallAfter = Some("80 seconds"),
      amendFor = Option.when(amends)("1 day")
    )
    withConf(
      "spark.sql.shuffle.partitions" -> (1 + random.nextInt(2)),
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> oneOf(1, 2)
    ) {
      val h = new StreamHarness(spark, directory, Some(clock))(join(o)).start()
      val lefts = mutable.HashMap.empty[Int, Served]
      val rights = mutable.ArrayBuffer.empty[Engaged]
      val first = mutable.HashMap.empty[Int, Emitted]
      val now = mutable.HashMap.empty[Int, Set[Int]]
      var id = 0
      // Nine micro-batches without rows stall it.
      val begin = 3 + random.nextInt(5)
      val down = begin until begin + 8 + random.nextInt(10)
      var excluded = 0
      // How far the right side has been read, and how far by the query: a start doesn't know of the last batch before it.
      var readTo, told, earlier = Long.MinValue

      // An amended row has its key and its time, which is unique. The watermark is in milliseconds, and so are the times.
      def leftOf(row: Row): Served =
        lefts.values.find(left => left.k == row.getAs[String]("k") && left.t == row.getAs[Timestamp]("t")).get

      def matches(left: Served): Set[Int] = rights.collect {
        case right
            if right.k == left.k && microsOf(right.rt) >= microsOf(left.t) &&
              microsOf(right.rt) <= microsOf(left.t) + after =>
          right.rid
      }.toSet

      (0 until 32).foreach { step =>
        val isDown = down.contains(step)
        val restarts = random.nextInt(10) == 0
        if (restarts) {
          h.restart()
          told = Math.min(told, earlier)
        }
        clock.advance(limit / 8)
        val key = oneOf("a", "b")
        val served = random.shuffle((0 until 10).toList).take(1 + random.nextInt(2)).map { offset =>
          id += 1
          Served(key, micros(step * 10000L + offset * 1000L), id)
        }
        // When it is back, it goes on where it was: the right side's rows come in order.
        val from = rights.lastOption.fold(0L)(last => microsOf(last.rt) - microsOf(micros(0))) / 1000
        val until = oneOf(step * 10L + 10, from + (step * 10L + 10 - from) / 2)
        val engaged =
          if (isDown || until <= from) Nil
          else
            Seq
              .fill(random.nextInt(4) + 1)(from + 1 + random.nextInt((until - from).toInt))
              .distinct
              .sorted
              .map { t =>
                id += 1
                Engaged(oneOf("a", "b"), micros(t * 1000L), id)
              }
        served.foreach(row => lefts(row.id) = row)
        val leftBefore = lefts.values.filterNot(served.contains).map(row => microsOf(row.t)).maxOption
        val (before, toldBefore) = (readTo, told)
        rights ++= engaged
        engaged.lastOption.foreach { last =>
          readTo = microsOf(last.rt)
          told = readTo
        }
        h.rows(served, engaged).zipWithIndex.foreach { case (batch, i) =>
          val (upTo, known) = if (i == 0) (before, toldBefore) else (readTo, told)
          batch.foreach { out =>
            val row = Emitted.of(out)
            val left = leftOf(out)
            val clue = s"seed $seed, step $step, batch $i: $row"
            val found = row.labels.toSet
            assert(found.subsetOf(matches(left)), clue)
            row.mark match {
              case Some("amended") => assert(amends && first.contains(left.id) && found != now(left.id), clue)
              case mark =>
                assert(first.put(left.id, row).isEmpty, clue)
                val end = microsOf(left.t) + after
                if (mark.isEmpty) assert(upTo >= end, clue)
                else {
                  excluded += 1
                  assert(mark.contains("excluded") && known < end, clue)
                }
            }
            now(left.id) = found
          }
        }
        // A start knows the query's watermark, which is that of the slower side.
        earlier = Math.min(before, leftBefore.getOrElse(Long.MinValue))
      }
      // All that is there comes out when the right side has caught up.
      val end = micros(10000000L)
      h.rows(Seq(Served("end", end, 0)), Seq(Engaged("end", end, -1))).flatten.foreach { out =>
        val (row, left) = (Emitted.of(out), leftOf(out))
        if (!row.mark.contains("amended")) assert(first.put(left.id, row).isEmpty)
        now(left.id) = row.labels.toSet
      }
      assert(first.keySet == lefts.keySet, s"seed $seed")
      first.foreach { case (id, row) =>
        val all = matches(lefts(id))
        if (row.mark.isEmpty) assert(row.labels.toSet == all, s"seed $seed: $row")
        if (amends) assert(now(id) == all, s"seed $seed: $row")
      }
      assert(h.changed.isEmpty)
      total += excluded
    }
  }

  private var total = 0

  Campaign.sizes(2, 60).foreach { case (count, tags) =>
    test(
      s"a row is marked if it lacks the right side, and amended when that is back: $count seeds",
      tags: _*
    ) {
      total = 0
      (0 until count).foreach(run)
      assert(total > 0, "no row came out without the right side")
    }
  }
}
