package io.tailrace.watermark

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.SparkWatermark

final class SourceProgressSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  override implicit val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200)

  private def share(text: String): Completeness = Completeness.parse(text).get

  private def seen(times: (String, Long)*): HostTable = {
    val table = new HostTable
    times.foreach { case (name, time) => table.raise(table.add(name), time) }
    table
  }

  private def read(askedMs: Long, hasNew: Boolean = true): BatchInput =
    BatchInput(askedMs, hasNew, hasUnread = false)

  private def source(
      completeness: String = "100%",
      roster: Option[Seq[String]] = None,
      idleAfterMs: Option[Long] = None
  ): SourceProgress = new SourceProgress(share(completeness), roster, idleAfterMs)

  test("the example of the scaladoc holds") {
    val progress = source("75%", Some(Seq("a", "b", "c", "d")))
    progress.advance(seen("a" -> 1207, "b" -> 1205), read(0))
    assert(progress.low == SparkWatermark.Never)
    progress.advance(seen("c" -> 1209), read(0))
    assert(progress.low == 1205)
    progress.advance(seen("d" -> 1100), read(0))
    assert(progress.low == 1205)
  }

  private val steps: Gen[List[(String, Long)]] =
    Gen.listOf(for { h <- Gen.choose(0, 30); t <- Gen.choose(-50L, 1000L) } yield h.toString -> t)

  test("the low watermark is the (allowed + 1)-th smallest time of the hosts, and never goes back") {
    forAll(
      steps,
      Gen.oneOf("100%", "99.9%", "90%", "50%", "1%"),
      Gen.oneOf(Gen.const(None), Gen.some(Gen.choose(1, 40)))
    ) { (input, completeness, rosterSize) =>
      val roster = rosterSize.map(n => (0 until n).map(_.toString))
      val progress = source(completeness, roster)
      var known = roster.fold(Map.empty[String, Long])(_.map(_ -> SparkWatermark.Never).toMap)
      var expected = SparkWatermark.Never
      input.grouped(3).foreach { batch =>
        progress.advance(seen(batch: _*), read(0))
        batch.filter(s => roster.forall(_.contains(s._1))).foreach { case (name, time) =>
          known += name -> Math.max(time, known.getOrElse(name, SparkWatermark.Never))
        }
        if (known.nonEmpty) {
          val rank = share(completeness).allowed(known.size)
          expected = Math.max(expected, known.values.toSeq.sorted.apply(rank))
        }
        assert(progress.low == expected)
      }
    }
  }

  test("reports may come in any order and any number of times") {
    forAll(steps, Gen.choose(0, 1000)) { (input, seed) =>
      val once = source("90%")
      once.advance(seen(input: _*), read(0))
      val again = source("90%")
      val shuffled = new scala.util.Random(seed).shuffle(input ++ input)
      again.advance(seen(shuffled: _*), read(0))
      assert(again.low == once.low)
    }
  }

  test("a silent host stops counting, is named, and counts again when it has rows") {
    val progress = source(roster = Some(Seq("a", "b")), idleAfterMs = Some(80))
    progress.advance(seen("a" -> 10), read(0))
    (1 to 7).foreach(i => assert(progress.advance(seen("a" -> 10), read(i * 10L)).idle == Nil))
    assert(progress.low == SparkWatermark.Never)
    val advance = progress.advance(seen("a" -> 20), read(80))
    assert(advance.idle == Seq("b") && progress.low == 20)
    assert(progress.advance(seen("a" -> 30), read(90)).idle == Nil)
    assert(progress.low == 30)
    assert(progress.report(5).expected == 1 && progress.report(5).idle == 1)
    val back = progress.advance(seen("b" -> 5, "a" -> 40), read(95))
    assert(back.back == Seq("b") && progress.low == 30)
    progress.advance(seen("b" -> 35), read(100))
    assert(progress.low == 35)
  }

  test("while no host has rows, no host is silent, whatever the clock does") {
    val progress = source(idleAfterMs = Some(80))
    progress.advance(seen("a" -> 10, "b" -> 5), read(0))
    (1 to 100).foreach { i =>
      assert(progress.advance(seen(), read(i * 1000L, hasNew = false)).idle == Nil)
    }
    // The night is over, and host a has the first rows.
    assert(progress.advance(seen("a" -> 20), read(200000)).idle == Nil)
    assert(progress.low == 5)
  }

  test("while rows are unread, no host is silent: they may be its rows") {
    val progress = source(idleAfterMs = Some(80))
    progress.advance(seen("a" -> 10, "b" -> 5), read(0))
    (1 to 50).foreach { i =>
      val backlog = BatchInput(i * 10L, hasNew = true, hasUnread = true)
      assert(progress.advance(seen("a" -> (10L + i)), backlog).idle == Nil)
    }
    assert(progress.low == 5)
    val idle = (51 to 60).flatMap(i => progress.advance(seen("a" -> (10L + i)), read(i * 10L)).idle)
    assert(idle == Seq("b"))
  }

  test("the clock of silence runs while another source has rows") {
    val progress = source(roster = Some(Seq("a")), idleAfterMs = Some(80))
    val idle = (0 to 10).flatMap(i => progress.advance(seen(), read(i * 10L)).idle)
    assert(idle == Seq("a"))
  }

  test("a host that the roster leaves out is named once, and counted") {
    val progress = source(roster = Some(Seq("a", "b")))
    assert(progress.advance(seen("a" -> 10, "x" -> 5), read(0)).outside == Seq("x"))
    assert(progress.advance(seen("x" -> 6, "y" -> 7), read(10)).outside == Seq("y"))
    assert(progress.advance(seen("x" -> 8, "y" -> 9), read(20)).outside == Nil)
    assert(progress.report(5).unrostered == 2 && progress.report(5).expected == 2)
    val open = source()
    assert(open.advance(seen("x" -> 5), read(0)).outside == Nil && open.report(5).unrostered == 0)
    val many = source(roster = Some(Seq("a")))
    val named = (0 until 3).flatMap { batch =>
      many.advance(seen((0 until 5000).map(i => s"pod-$batch-$i" -> 1L): _*), read(batch.toLong)).outside
    }
    assert(named.size == 10000 && many.report(5).unrostered == 15000, "the memory for names has a limit")
  }

  private val week = SourceProgress.GoneAfter

  private def names(of: HostTable): Set[String] = (0 until of.size).map(of.name).toSet

  test(
    "silent hosts a week behind, in no roster, are forgotten; their rows ahead of the clock still count"
  ) {
    val progress = source(idleAfterMs = Some(80))
    val pods = seen((1 to 20).map(i => s"pod-$i" -> (if (i > 15) week else 5L)) :+ ("a" -> week): _*)
    pods.addFuture(0, 3)
    progress.advance(pods, read(0))
    assert(progress.forget(all = false).isEmpty, "nobody is silent")
    (1 to 10).foreach(i => progress.advance(seen("a" -> (week + i)), read(i * 10L)))
    assert(progress.low == week + 10)
    val numbers = progress.forget(all = false).get
    assert(names(progress.table) == (16 to 20).map(i => s"pod-$i").toSet + "a")
    assert(numbers.count(_ < 0) == 15 && progress.table.name(numbers(20)) == "a")
    assert(progress.report(1).idle == 5 && progress.report(1).future == 3 && progress.futureOfForgotten == 3)
    assert(progress.forget(all = false).isEmpty)
    // A host that comes back is a new one: it counts, and the watermark stays.
    progress.advance(seen("pod-1" -> 7, "a" -> (week + 20)), read(110))
    assert(progress.report(1).slowest == Seq("pod-1" -> 7) && progress.low == week + 10)
  }

  test("hosts of the roster are never forgotten, others are, with a server too") {
    val progress = source(roster = Some(Seq("a", "b")), completeness = "50%")
    progress.advance(seen("a" -> 2 * week, "old" -> 1, "new" -> 2 * week), read(0))
    assert(progress.low == 2 * week)
    assert(progress.forget(all = false).isDefined)
    assert(names(progress.table) == Set("a", "b", "new"))
    val served = source()
    served.advance(seen("a" -> 2 * week, "b" -> 1, "c" -> 2), read(0), moving = false)
    assert(served.forget(all = true).isEmpty, "there is no watermark")
    served.restore(2 * week)
    assert(served.forget(all = true).isDefined && names(served.table) == Set("a"))
  }

  test("the report counts the hosts that count and those that have passed, and names the slowest") {
    val progress = source("60%", Some((1 to 5).map(i => s"h$i")))
    progress.advance(seen("h1" -> 50, "h2" -> 40, "h3" -> 30, "h4" -> 20, "other" -> 1), read(0))
    assert(progress.low == 30)
    val report = progress.report(3)
    assert(report.expected == 5 && report.passed == 3)
    assert(report.slowest == Seq("h5" -> SparkWatermark.Never, "h4" -> 20, "h3" -> 30))
    assert(report.unrostered == 1)
    assert(source().report(3) == ProgressReport(0, 0, 0, 0, 0, Nil))
  }

  test("a source may have a million hosts") {
    val table = new HostTable
    (0 until 1000000).foreach(i => table.raise(table.add(s"log-$i.dc1"), i.toLong))
    assert(table.size == 1000000 && table.time(table.find("log-777777.dc1")) == 777777)
    assert(table.find("log-1000000.dc1") == -1)
    val progress = source("99.9%")
    progress.advance(table, read(0))
    assert(progress.low == 1000)
    assert(progress.report(2).slowest == Seq("log-0.dc1" -> 0, "log-1.dc1" -> 1))
  }

  test("the k-th smallest number is found") {
    forAll(Gen.nonEmptyListOf(Gen.choose(-20L, 20L)), Gen.choose(0, 1000)) { (numbers, pick) =>
      val rank = pick % numbers.size
      assert(Smallest.at(numbers.toArray, rank) == numbers.sorted.apply(rank))
    }
  }
}
