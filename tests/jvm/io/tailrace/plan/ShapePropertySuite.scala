package io.tailrace.plan

import scala.util.Random

import org.apache.spark.sql.Row

import io.tailrace.testkit.{CampaignSuite, Event, EventStreams, Shape, SparkSuite, Times}

/** Queries of random shapes. A stream gives the rows that the same calls give on batch DataFrames, whatever
  * its batches are. It drops nothing, and keeps no row longer than needed.
  *
  * `TAILRACE_SHAPES` is the number of shapes of a long campaign, `TAILRACE_SEED` the first one's seed.
  */
class ShapePropertySuite extends SparkSuite with CampaignSuite {
  import spark.implicits._

  private val first = sys.env.get("TAILRACE_SEED").fold(0L)(_.toLong)
  private val count = sys.env.get("TAILRACE_SHAPES").fold(2)(_.toInt)

  private def shown(rows: Seq[Row]): Seq[String] =
    rows.filterNot(_.getTimestamp(1).after(Times.seconds(Event.End / 2))).map(_.toString).sorted

  private def ends(shape: Shape): Seq[Seq[Event]] = Shape.ends.take(if (shape.isSynced) 4 else 1)

  /** The rows of a shape as a stream of these batches, and the number of rows in each operator's state at the
    * end.
    */
  private def streamed(
      shape: Shape,
      batches: Seq[(Seq[Event], Seq[Event])],
      restartAt: Int
  ): (Seq[String], Seq[(String, Long)]) = {
    var result = (Seq.empty[String], Seq.empty[(String, Long)])
    withDirectory { d =>
      val h = new EventStreams(spark, d)((l, r) => shape(l, r)).start()
      batches.zipWithIndex.foreach { case ((l, r), i) =>
        if (i == restartAt) h.restart()
        h.add(l, r)
      }
      ends(shape).foreach(end => h.add(end, end))
      assert(h.dropped == 0, "rows were late")
      result = (shown(h.all), h.kept)
      h.stop()
    }
    result
  }

  /** The rows in a number of batches. */
  private def cut(
      rows: (Seq[Event], Seq[Event]),
      into: Int,
      random: Random
  ): Seq[(Seq[Event], Seq[Event])] = {
    def cuts(of: Seq[Event]): Seq[Seq[Event]] = {
      val at = (0 +: Seq.fill(into - 1)(random.nextInt(of.size + 1)).sorted :+ of.size)
      at.zip(at.tail).map { case (from, until) => of.slice(from, until) }
    }
    cuts(rows._1).zip(cuts(rows._2)).filter { case (l, r) => l.nonEmpty || r.nonEmpty }
  }

  private def check(seed: Long): Unit = {
    val shape = Shape.random(seed)
    val random = new Random(seed)
    val rows = Shape.events(seed)
    val last = ends(shape).flatten
    withClue(s"TAILRACE_SEED=$seed TAILRACE_SHAPES=1, $shape: ") {
      val expected =
        shown(shape((rows._1 ++ last).toDF(), (rows._2 ++ last).toDF()).collect().toSeq)
      val (_, keptOfEnds) = streamed(shape, Nil, -1)
      Seq(1, 2, 4).foreach { into =>
        withClue(s"$into batches: ") {
          val (found, kept) = streamed(shape, cut(rows, into, random), if (into == 4) 2 else -1)
          assert(found.diff(expected) == Nil && expected.diff(found) == Nil)
          assert(kept == keptOfEnds, "rows that are kept in the end")
        }
      }
    }
  }

  test("streams of random shapes give the rows of batch DataFrames, and free their state") {
    withConf("spark.sql.shuffle.partitions" -> 1) {
      (first until first + count).foreach { seed =>
        val begun = System.nanoTime
        if (count > 10) println(s"SHAPE $seed ${Shape.random(seed)}")
        val failure =
          try { check(seed); None }
          catch { case e: Throwable if count > 10 => Some(e) }
        failure.foreach(e => println(s"SHAPE FAILED $seed ${e.toString.take(2500)}"))
        if (count > 10) println(s"SHAPE $seed ${(System.nanoTime - begun) / 1000000} ms")
      }
    }
  }
}
