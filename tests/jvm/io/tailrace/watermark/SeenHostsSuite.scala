package io.tailrace.watermark

import scala.util.Random

import org.apache.spark.unsafe.types.UTF8String
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.SparkWatermark

/** What tasks have seen, as the driver merges it. */
final class SeenHostsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  /** A row of a host: its time, none if it is ahead of the clock. */
  private type Read = (String, Option[Long])

  private val read: Gen[Read] = for {
    host <- Gen.choose(0, 9).map(i => s"host-$i")
    time <- Gen.frequency(8 -> Gen.choose(-5L, 5L).map(Some(_)), 1 -> Gen.const(None))
  } yield host -> time

  private def task(rows: Seq[Read], numbers: Option[HostNumbers]): TaskProgress = {
    val maxima = new HostMaxima
    rows.foreach {
      case (host, Some(time)) => maxima.see(UTF8String.fromString(host), time)
      case (host, None) => maxima.seeFuture(UTF8String.fromString(host))
    }
    maxima.late = rows.size.toLong
    maxima.share = WatermarkStamp.WholeShare - rows.size
    TaskProgress(rows.size.toLong, maxima.toBytes(numbers))
  }

  /** As Spark does it: an empty copy goes to the task, and comes back. */
  private def merge(driver: HostAccumulator, partition: Int, seen: TaskProgress): Unit = {
    val ofTask = driver.copyAndReset()
    assert(ofTask.isZero)
    ofTask.add(partition -> seen)
    driver.merge(ofTask.copy())
  }

  private def contents(table: HostTable): Map[String, (Long, Long)] =
    (0 until table.size).map(i => table.name(i) -> (table.time(i) -> table.future(i))).toMap

  test(
    "the driver has the greatest times of all runs, and counts each partition once, by number or by name"
  ) {
    val partitions = Gen.listOfN(3, Gen.listOf(read))
    val known = Gen.someOf((0 to 12).map(i => s"host-$i"))
    forAll(partitions, known, Gen.long, minSuccessful(200)) { (rows, names, seed) =>
      val random = new Random(seed)
      val numbers = Option.when(names.nonEmpty)(new HostNumbers(names.toArray))
      val driver = new HostAccumulator(numbers)
      // Each partition is read whole, again, and in parts, as by a limit.
      val runs = rows.zipWithIndex.flatMap { case (all, partition) =>
        Seq(all, all, all.take(all.size / 2), all.take(1)).map(partition -> _)
      }
      random.shuffle(runs).foreach { case (partition, some) => merge(driver, partition, task(some, numbers)) }
      val expected = rows.flatten.groupMap(_._1)(_._2).map { case (host, times) =>
        host -> (times.flatten.maxOption.getOrElse(SparkWatermark.Never) -> times.count(_.isEmpty).toLong)
      }
      val seen = driver.value
      assert(contents(seen.table) == expected && !driver.isZero)
      assert(seen.late == rows.map(_.size).sum)
      assert(seen.share == WatermarkStamp.WholeShare - rows.map(_.size).max)
    }
  }

  test("a DataFrame that is used twice has two nodes, and its rows count once") {
    def node(rows: Read*): SeenHosts = {
      val driver = new HostAccumulator(None)
      merge(driver, 0, task(rows, None))
      driver.value
    }
    val seen = SeenHosts.inBatch(Seq(node("a" -> Some(1), "b" -> None), node("a" -> Some(2), "b" -> None)))
    assert(contents(seen.table) == Map("a" -> (2L -> 0L), "b" -> (SparkWatermark.Never -> 1L)))
    assert(seen.late == 2)
    assert(SeenHosts.inBatch(Nil).table.size == 0)
  }

  test("the times of known hosts take eight bytes each, and few of many hosts twelve") {
    val names = Array.tabulate(1000)(i => s"a-host-with-a-long-name-$i.example.net")
    val numbers = Some(new HostNumbers(names))
    def size(hosts: Int) = task(names.toSeq.take(hosts).map(_ -> Some(7L)), numbers).bytes.length
    assert(size(1000) == 24 + 8000 && size(10) == 24 + 120 && size(0) == 24)
  }
}
