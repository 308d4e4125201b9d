package io.tailrace.ops.why

import java.io.File

import scala.annotation.tailrec
import scala.util.Random

import org.apache.spark.sql.DataFrame

import io.tailrace.api.Tailrace
import io.tailrace.common.EventTimes.iso
import io.tailrace.common.TailraceConf
import io.tailrace.label.JoinOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{micros, microsOf, seconds}
import io.tailrace.testkit._

/** What `tailrace why` says of a query, held against what the query then does. */
final class WhySuite extends SparkSuite with SlowSuite {
  private val window = options("10 seconds").copy(before = "5 seconds")

  private def why(d: File, key: Option[String] = None, most: Int = 100): WhyReport =
    new Explanation(d.getPath, spark.sessionState.newHadoopConf(), most).report(key)

  private def micro(time: String): Long = microsOf(java.sql.Timestamp.from(java.time.Instant.parse(time)))

  /** Moves the watermark to a time, with a row of each side that nothing matches. */
  private def moveTo(harness: StreamHarness, time: Long): Seq[Emitted] = {
    val at = micros(time - microsOf(micros(0)))
    harness.step(Seq(Served("none", at, -1)), Seq(Engaged("nobody", at, -1))).flatten
  }

  private val random = new Random(19)

  /** Some rows, a few of them with a null for a key, whose watermark moves. @return those of both sides */
  private def fill(harness: StreamHarness): (Seq[Served], Seq[Engaged]) = {
    def key() = if (random.nextInt(8) == 0) null else s"key ${random.nextInt(4)}"
    val (served, engaged) = (1 to 4).map { step =>
      def time() = seconds(step * 5 + random.nextInt(5000) / 1000.0)
      val left = Seq.tabulate(5)(i => Served(key(), time(), step * 10 + i))
      val right = Seq.tabulate(4)(i => Engaged(key(), time(), step * 10 + i))
      harness.step(left, right): Unit
      (left, right)
    }.unzip
    (served.flatten, engaged.flatten)
  }

  for (strategy <- Seq("lazy", "eager"); release <- Seq("batch", "7 seconds"); format <- Seq(1, 2)) {
    val tags = if ((strategy == "lazy") == (format == 2) || release == "batch") Seq(Campaign) else Nil
    test(s"each row comes out at the watermark that it says: $strategy, $release, format $format", tags: _*) {
      withConf(
        TailraceConf.JoinStrategy.key -> strategy,
        "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format
      ) {
        withDirectory(d => checkGroups(d, window.copy(releaseEvery = Some(release))))
      }
    }
  }

  private def checkGroups(d: File, options: JoinOptions): Unit = {
    val harness = new StreamHarness(spark, d)(join(options, "2 seconds", "2 seconds")).start()
    val (served, engaged) = fill(harness)
    val rows = why(d).operators.head.rows
    val out = harness.all.flatMap(_.id).toSet
    val waiting = served.filterNot(row => out(row.id)).sortBy(row => microsOf(row.t))
    assert(waiting.nonEmpty && rows.map(_.time) == waiting.map(row => iso(microsOf(row.t))))
    waiting.zip(rows).foreach { case (left, row) =>
      val matches = engaged.count { right =>
        val distance = microsOf(right.rt) - microsOf(left.t)
        right.k == left.k && distance >= -5000000 && distance <= 10000000
      }
      assert(row.side == "left" && row.key == Option(left.k).map(k => Map("k" -> k)))
      assert(row.matches == Option(left.k).map(_ => matches.toLong))
      assert(row.since.batch == (left.id / 10 - 1) * 2 && row.since.time.nonEmpty)
    }
    // The delay of both streams is 2 seconds.
    def reach(time: Long): Set[Int] = moveTo(harness, time + 2000000).flatMap(_.id).toSet
    val first = rows.flatMap(_.leaves).map(micro).min
    assert(why(d).operators.head.text.exists(_.contains(s"the watermark has reached ${iso(first)}:")))

    /** Nothing comes out before it. If a step has begun on the way there, its rows wait for the next one. */
    @tailrec
    def settled(from: Long): Long = {
      assert(reach(Math.floorDiv(from, 1000L) * 1000 - 1000).isEmpty)
      val next = why(d).operators.head.rows.flatMap(_.leaves).map(micro).min
      assert(next >= from)
      if (next == from) from else settled(next)
    }
    val last = settled(first)
    val now = why(d).operators.head.rows.find(_.leaves.contains(iso(last))).get
    val due = waiting.find(row => iso(microsOf(row.t)) == now.time).get.id
    assert(reach(last + 1000)(due))
    harness.stop()
  }

  test("pairs: a row waits until no partner can come, and rows that have expired aren't shown") {
    withDirectory { d =>
      val pairs = window.copy(how = "inner")
      val harness = new StreamHarness(spark, d)(join(pairs)).start()
      harness.step(
        Seq(Served("a", seconds(1), 1), Served("e", seconds(2.5), 3), Served("b", seconds(9), 2)),
        Seq(Engaged("a", seconds(8), 1), Engaged("c", seconds(3), 3))
      ): Unit
      val rows =
        why(d).operators.head.rows.map(row => (row.side, row.key.get("k"), row.leaves.get, row.matches))
      assert(
        rows == Seq(
          ("left", "a", iso(microsOf(seconds(11))), Some(1)),
          ("left", "e", iso(microsOf(seconds(12.5))), Some(0)),
          ("right", "a", iso(microsOf(seconds(13))), None),
          ("left", "b", iso(microsOf(seconds(19))), Some(0))
        )
      )
      val text = why(d).operators.head.text
      assert(text.head == "3 left rows and 1 right row are in the state.")
      assert(text.exists(_.contains(s"given up is of ${iso(microsOf(seconds(1)))} (k=a, partition")))
      harness.step(Seq(Served("d", seconds(12), 4)), Seq(Engaged("d", seconds(12), 4))): Unit
      // Row a is in one section with row e, which still waits.
      val later = why(d).operators.head
      assert(later.text.head.startsWith("4 left rows"))
      assert(later.rows.filter(_.side == "left").map(_.key.get("k")) == Seq("e", "b", "d"))
      harness.stop()
    }
  }

  test("a key: what waits of both sides, and what follows if nothing does") {
    withDirectory { d =>
      val harness = new StreamHarness(spark, d)(join(window)).start()
      harness.step(
        Seq(Served("a", seconds(1), 1), Served("b", seconds(2), 2), Served(null, seconds(3), 3)),
        Seq(Engaged("a", seconds(4), 1), Engaged("c", seconds(4), 2))
      ): Unit
      val a = why(d, Some("k=a")).operators.head
      assert(a.rows.map(row => (row.side, row.time)).toSet == Set("left" -> 1, "right" -> 4).map {
        case (side, second) => side -> iso(microsOf(seconds(second.toDouble)))
      })
      // It is the next row of all, too: that is said once.
      assert(a.text.count(_.contains(s"to be emitted is of ${a.rows.head.time} (k=a")) == 1)
      val b = why(d, Some("k=b")).operators.head
      assert(b.text.exists(_.startsWith("The next row of this key to be emitted is of ")))
      def last(key: String) = why(d, Some(key)).operators.head.text.last
      assert(last("k=b").startsWith("No right row of this key is in the state"))
      assert(last("k=c").startsWith("No left row of this key is buffered, beside 1 right row"))
      assert(last("k=d").startsWith("No row of this key is buffered."))
      val few = why(d, Some("k=a"), most = 1).operators.head
      assert(few.rows.size == 1 && few.more == 1)
      checkRefused(
        "TAILRACE_OPTION_INVALID",
        "call" -> "tailrace why",
        "argument" -> "--key",
        "value" -> "id=1",
        "allowed" -> "a value for each key column: k=..."
      )(why(d, Some("id=1")))
      harness.stop()
    }
  }

  test("the parts of a hot key are one key, and its right rows are there once") {
    withDirectory { d =>
      val hot = window.copy(saltedKeys = Seq(Seq("a")), saltBuckets = Some(3))
      val harness = new StreamHarness(spark, d)(join(hot)).start()
      val left = (1 to 9).map(i => Served("a", seconds(i / 10.0), i))
      harness.step(left :+ Served("b", seconds(2), 20), Seq(Engaged("a", seconds(2), 1))): Unit
      val found = why(d, Some("k=a")).operators.head.rows
      assert(found.count(_.side == "left") == 9 && found.count(_.side == "right") == 1)
      assert(found.filter(_.side == "left").forall(_.matches.contains(1)))
      assert(found.map(_.partition).distinct.size == 2 && found.forall(_.key.contains(Map("k" -> "a"))))
      assert(why(d, Some("k=b")).operators.head.rows.size == 1)
      assert(why(d).operators.head.rows.size == 10)
      harness.stop()
    }
  }

  private def synced(oneToOne: Boolean)(served: DataFrame, engaged: DataFrame): DataFrame = {
    val (left, right) = (Seq("id"), Seq("rid"))
    val options = SyncOptions("t", "rt", "1 minute", "5 seconds", left, right, oneToOne = oneToOne)
    Tailrace.syncJoin(served, engaged, Seq("k" -> "k"), options)
  }

  test("a left row of a synced join that has come out before its time isn't among those that wait") {
    withDirectory { d =>
      val harness = new StreamHarness(spark, d)(synced(oneToOne = true)).start()
      val lefts = Seq(Served("a", seconds(10), 0), Served("b", seconds(20), 0))
      assert(harness.step(lefts, Seq(Engaged("x", seconds(2), 1))).flatten.isEmpty)
      assert(harness.step(Nil, Seq(Engaged("a", seconds(11), 2))).flatten.flatMap(_.id) == Seq(0))
      val rows = why(d).operators.head.rows
      assert(rows.map(row => row.side -> row.key.get("k")) == Seq("left" -> "b"))
      assert(why(d, Some("k=a")).operators.head.rows.isEmpty)
      harness.stop()
    }
  }

  test("a synced join's row comes out when the slowest right partition is past the time that it says") {
    withDirectory { d =>
      val harness = new StreamHarness(spark, d)(synced(oneToOne = false)).start()
      harness.step(
        Seq(Served("a", seconds(10), 0), Served("b", seconds(20), 0)),
        Seq(Engaged("a", seconds(11), 1), Engaged("x", seconds(40), 2))
      ): Unit
      val operator = why(d).operators.head
      val rows = operator.rows
      assert(rows.map(row => (row.key.get("k"), row.matches)) == Seq("a" -> Some(1L), "b" -> Some(0L)))
      assert(rows.map(_.leaves.get) == Seq(15, 25).map(second => iso(microsOf(seconds(second.toDouble)) + 1)))
      assert(
        operator.text.exists(
          _.startsWith(
            s"The right side waits for partition 1: it has been read up to ${iso(microsOf(seconds(11)))}"
          )
        )
      )
      def read(time: Long) = harness.step(Nil, Seq(Engaged("y", micros(time), 1))).flatten.flatMap(_.id)
      assert(read(15000000).isEmpty)
      assert(read(15000001) == Seq(0))
      val keyed = why(d, Some("k=b")).operators.head
      assert(keyed.rows.map(_.side) == Seq("left"))
      harness.stop()
    }
  }

  test("a query that never had a watermark, and one whose operators aren't joins") {
    withDirectory { d =>
      val harness = new StreamHarness(spark, d)(join(window)).start()
      harness.left(Served("a", seconds(1), 1)): Unit
      val report = why(d)
      assert(report.watermark.isEmpty && report.text.head == "There is no watermark yet.")
      assert(report.text(1).startsWith("Supposedly the right side holds it: the state has no right row"))
      harness.stop()
    }
    withDirectory { d =>
      val harness = new StreamHarness(spark, d)((l, _) =>
        l.withWatermark("t", "1 second").dropDuplicatesWithinWatermark("id")
      ).start()
      harness.rows(Seq(Served("k", seconds(1), 1)), Nil): Unit
      val report = why(d)
      assert(report.operators.isEmpty && report.watermark.contains(iso(microsOf(seconds(0)))))
      assert(
        report.text.last == "No join of Tailrace keeps rows here. State is kept by dedupeWithinWatermark."
      )
      harness.stop()
    }
  }
}
