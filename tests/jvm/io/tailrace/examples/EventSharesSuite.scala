package io.tailrace.examples

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/** Credits that are found once for all touches are those that each touch would find by itself. */
final class EventSharesSuite extends AnyFunSuite {
  private val attributions = Seq(
    Attribution.LastTouch,
    Attribution.FirstTouch,
    Attribution.Linear,
    Attribution.TimeDecay(7),
    Attribution.Position(0.4, 0.2, 0.4),
    Attribution.Position(0.0, 1.0, 0.0)
  )

  private def touchesOf(all: Seq[(Long, Long)]): Touches = {
    val touches = new Touches
    fill(touches, all)
    touches
  }

  private def fill(touches: Touches, all: Seq[(Long, Long)]): Unit = {
    touches.clear()
    all.foreach { case (time, hash) => touches.add(time, hash) }
    touches.settle()
  }

  test("touches are in order, each once, however they come") {
    val random = new Random(1)
    val touches = new Touches
    for (_ <- 1 to 300) {
      val all = Seq.fill(random.nextInt(40))((random.nextInt(12).toLong, random.nextInt(4).toLong))
      fill(touches, if (random.nextBoolean()) all.sorted else all)
      val expected = all.distinct.sorted
      assert(touches.times.toSeq == expected.map(_._1))
      expected.zipWithIndex.foreach { case ((time, hash), i) =>
        assert(touches.place(time, hash) == i)
        assert(touches.time(i) == time)
      }
      assert(touches.firstFrom(6) == expected.count(_._1 < 6))
    }
  }

  test("the same touches are the same times, and others aren't") {
    val touches = touchesOf(Seq(1L -> 1L, 2L -> 1L))
    val times = touches.times
    fill(touches, Seq(1L -> 1L, 2L -> 1L))
    assert(touches.times eq times)
    fill(touches, Seq(1L -> 1L, 3L -> 1L))
    assert(touches.times.toSeq == Seq(1L, 3L))
    assert(times.toSeq == Seq(1L, 2L))
  }

  attributions.foreach { attribution =>
    test(s"each touch has the credit that it finds by itself: $attribution") {
      val random = new Random(2)
      val shares = new EventShares(attribution)
      var asked = 0
      for (key <- 1 to 12) {
        // Each key has touches of its own at times that others have, too, and so has each further key.
        val all =
          Seq.fill(1 + random.nextInt(25))((random.nextInt(60).toLong, random.nextInt(3).toLong)).distinct
        val events = Seq.fill(8)(random.nextInt(70).toLong)
        val (before, after) = (random.nextInt(5), 5 + random.nextInt(40))
        val credits = all.sorted.flatMap { mine =>
          // The group of an impression: its own touch and those that may be its rivals.
          val near = all.filter { case (time, _) => Math.abs(time - mine._1) <= before + after }
          val touches = touchesOf(near)
          for {
            at <- events
            first = touches.firstFrom(at - after)
            n = touches.firstFrom(at + before + 1) - first
            place = touches.place(mine._1, mine._2) - first
            if place >= 0 && place < n
          } yield {
            asked += 1
            val credit = shares.credit(at, touches, first, n, place)
            assert(
              credit == attribution.credit(n, place, touch => Math.abs(at - touches.time(first + touch))),
              s"key $key, event $at of $n touches"
            )
            at -> credit
          }
        }
        credits.groupMap(_._1)(_._2).foreach { case (at, of) =>
          assert(of.sum == Attribution.Whole * events.count(_ == at), s"key $key, event $at")
        }
      }
      assert(asked > 300)
    }
  }
}
