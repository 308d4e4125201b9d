package io.tailrace.examples

import scala.util.Random

import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.label.{JoinWindow, MatchPolicy}

/** Credits that are found once for all touches are those that each touch would find by itself, and those of an event sum
  * to one.
  */
final class LabelRowsSuite extends AnyFunSuite {
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
    all.foreach { case (time, hash) => touches.add(time, hash) }
    touches.settle()
    touches
  }

  private def rule(attribution: Attribution, before: Long, after: Long): LabelRule =
    LabelRule(
      "buy",
      LabelUnion.FirstLabel,
      new StructType().add("id", "long"),
      JoinWindow(before, after),
      MatchPolicy.All,
      None,
      Nil,
      Some(attribution),
      None,
      Set.empty
    )

  test("touches are in order, and equal ones are several") {
    val random = new Random(1)
    for (_ <- 1 to 300) {
      val all = Seq.fill(random.nextInt(40))((random.nextInt(12).toLong, random.nextInt(4).toLong))
      // They come by time.
      val touches = touchesOf(all.sortBy(_._1))
      assert(touches.size == all.size)
      val expected = all.sorted
      expected.zipWithIndex.foreach { case ((time, hash), i) =>
        val twin = i - expected.indexOf((time, hash))
        assert(touches.place(time, hash, twin) == i)
        assert(touches.time(i) == time)
      }
      expected.distinct.foreach { case (time, hash) =>
        assert(touches.place(time, hash, expected.count(_ == ((time, hash)))) == -1)
      }
      assert(touches.place(6, 99, 0) == -1)
      assert(touches.countBefore(6) == expected.count(_._1 < 6))
      assert(touches.countThrough(6) == expected.count(_._1 <= 6))
      val gone = random.nextInt(all.size + 1)
      touches.dropFirst(gone)
      assert((0 until touches.size).map(touches.time) == expected.drop(gone).map(_._1))
    }
  }

  /** The shares of an event's touches by a plain reading of what each attribution means. */
  private def expected(attribution: Attribution, ago: Seq[Long]): Seq[Long] = {
    val n = ago.size
    val weights: Seq[Double] = attribution match {
      case Attribution.LastTouch => Seq.fill(n - 1)(0.0) :+ 1.0
      case Attribution.FirstTouch => 1.0 +: Seq.fill(n - 1)(0.0)
      case Attribution.Linear => Seq.fill(n)(1.0)
      case Attribution.TimeDecay(half) => ago.map(a => Math.pow(2.0, -(a - ago.min).toDouble / half))
      case Attribution.Position(first, middle, last) =>
        if (n == 1 || n == 2 && first + last == 0) Seq.fill(n)(1.0)
        else first +: Seq.fill(n - 2)(middle / (n - 2)) :+ last
    }
    val shares = weights.init.map(w => (w / weights.sum * Attribution.Whole).toLong)
    shares :+ (Attribution.Whole - shares.sum)
  }

  attributions.foreach { attribution =>
    test(s"each touch has its credit, whenever it asks and whatever is forgotten: $attribution") {
      val random = new Random(2)
      var asked = 0
      for (key <- 1 to 40) {
        val all = Seq.fill(1 + random.nextInt(25))(random.nextInt(60).toLong -> random.nextInt(3).toLong)
        val events = Seq.fill(8)(random.nextInt(70).toLong).sorted
        val (before, after) = (random.nextInt(5).toLong, 5L + random.nextInt(40))
        val rows = new LabelRows(rule(attribution, before, after))
        all.sortBy(_._1).foreach { case (time, hash) => rows.touches.add(time, hash) }
        rows.touches.settle()
        events.zipWithIndex.foreach { case (time, i) => rows.add(time, i.toLong) }
        val sorted = all.sorted
        val forgets = random.nextBoolean()
        val found = sorted.indices.flatMap { i =>
          val (time, hash) = sorted(i)
          // Impressions come by time; a window holds those around them.
          if (forgets && random.nextInt(4) == 0) rows.dropBefore(time - before - after)
          val mine = rows.touches.place(time, hash, i - sorted.indexOf((time, hash)))
          assert(mine >= 0)
          val from = rows.firstFrom(time - before)
          val until = rows.firstAfter(from, time + after)
          asked += until - from
          attribution match {
            case shared: Attribution.Shared =>
              (from until until).map(e => (rows.row(e), i, rows.share(shared, e, mine)))
            case Attribution.FirstTouch =>
              (rows.firstOfFirst(mine, from, until) until until).map(e => (rows.row(e), i, Attribution.Whole))
            case _ =>
              (from until rows.firstBehindLast(mine, from, until)).map(e =>
                (rows.row(e), i, Attribution.Whole)
              )
          }
        }
        events.zipWithIndex.foreach { case (at, e) =>
          val touches = sorted.indices.filter(i => sorted(i)._1 >= at - after && sorted(i)._1 <= at + before)
          val shares =
            if (touches.isEmpty) Nil else expected(attribution, touches.map(i => Math.abs(at - sorted(i)._1)))
          val of = found.collect { case (`e`, i, share) if share > 0 => i -> share }
          assert(of == touches.zip(shares).filter(_._2 > 0), s"key $key, event $at")
          assert(of.map(_._2).sum == (if (touches.isEmpty) 0 else Attribution.Whole))
        }
      }
      assert(asked > 1000)
    }
  }
}
