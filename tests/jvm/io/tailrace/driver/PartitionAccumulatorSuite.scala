package io.tailrace.driver

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

final class PartitionAccumulatorSuite extends AnyFunSuite {
  private case class Rows(count: Long) extends PartitionValue[Rows] {
    override def max(other: Rows): Rows = if (other.count > count) other else this
  }

  private def of(values: (Int, Long)*): PartitionAccumulator[Rows] = {
    val made = new PartitionAccumulator[Rows]
    values.foreach { case (partition, count) => made.add(partition -> Rows(count)) }
    made
  }

  test("of several runs over a partition, the result of the one that has seen most is kept") {
    assert(of(0 -> 4L, 1 -> 3L, 0 -> 2L, 1 -> 3L).value == Map(0 -> Rows(4), 1 -> Rows(3)))
  }

  test("results merge to the same whatever the order of tasks, partial and repeated ones among them") {
    (1 to 200).foreach { seed =>
      val random = new Random(seed)
      val whole = (0 until 1 + random.nextInt(5)).map(p => p -> random.nextInt(10).toLong)
      val partial = (0 until random.nextInt(8)).map { _ =>
        val (p, count) = whole(random.nextInt(whole.size))
        p -> random.nextLong(count + 1)
      }
      val again = whole.filter(_ => random.nextBoolean())
      val driver = new PartitionAccumulator[Rows]
      random.shuffle(whole ++ partial ++ again).foreach(task => driver.merge(of(task)))
      assert(driver.value == whole.map { case (p, count) => p -> Rows(count) }.toMap, s"seed $seed")
    }
  }

  test("a copy for a task begins empty and leaves the original unchanged") {
    val driver = of(0 -> 1L)
    val task = driver.copyAndReset().asInstanceOf[PartitionAccumulator[Rows]]
    assert(task.isZero && !driver.isZero)
    val copy = driver.copy()
    copy.add(0 -> Rows(5))
    assert(driver.value == Map(0 -> Rows(1)) && copy.value == Map(0 -> Rows(5)))
    driver.reset()
    assert(driver.isZero)
  }
}
