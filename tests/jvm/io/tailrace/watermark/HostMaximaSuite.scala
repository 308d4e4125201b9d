package io.tailrace.watermark

import org.apache.spark.unsafe.types.UTF8String
import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.SparkWatermark

final class HostMaximaSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  // A shrunk name is another host, and a shrunk time has another meaning.
  private implicit def noShrink[T]: Shrink[T] = Shrink.shrinkAny

  /** Names of all lengths. They differ in the first, the middle or the last characters, or only in length. */
  private val name: Gen[String] = for {
    letter <- Gen.oneOf("a", "b", "ö")
    number <- Gen.choose(0, 12)
    before <- Gen.choose(0, 20)
    after <- Gen.choose(0, 20)
  } yield letter * before + number + "x" * after

  private def readBack(maxima: HostMaxima): Map[String, (Long, Long)] = {
    val (task, driver) = (new HostAccumulator(None), new HostAccumulator(None))
    task.add(0 -> TaskProgress(1, maxima.toBytes(None)))
    driver.merge(task)
    val table = driver.value.table
    (0 until table.size).map(i => table.name(i) -> (table.time(i) -> table.future(i))).toMap
  }

  test("a task keeps the greatest time and the rows ahead of the clock of each host, whatever its name") {
    forAll(Gen.listOf(Gen.zip(name, Gen.choose(-9L, 9L))), minSuccessful(200)) { rows =>
      val maxima = new HostMaxima
      rows.foreach { case (host, time) =>
        val bytes = UTF8String.fromString(host)
        // Spark uses the memory of a row again for the next row.
        if (time == 9) maxima.seeFuture(bytes) else maxima.see(bytes, time)
        java.util.Arrays.fill(bytes.getBaseObject.asInstanceOf[Array[Byte]], 0.toByte)
      }
      val expected = rows.groupMap(_._1)(_._2).map { case (host, times) =>
        val (future, seen) = times.partition(_ == 9)
        host -> (seen.maxOption.getOrElse(SparkWatermark.Never) -> future.size.toLong)
      }
      assert(readBack(maxima) == expected)
      assert(maxima.future == rows.count(_._2 == 9))
    }
  }

  test("a task may see a hundred thousand hosts") {
    val maxima = new HostMaxima
    (0 until 300000).foreach(i =>
      maxima.see(UTF8String.fromString(s"host-${i % 100000}.example.net"), i.toLong)
    )
    val found = readBack(maxima)
    assert(found.size == 100000)
    (0 until 100000).foreach(i => assert(found(s"host-$i.example.net") == (200000L + i -> 0L)))
  }
}
