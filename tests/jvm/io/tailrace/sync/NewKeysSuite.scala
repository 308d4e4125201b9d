package io.tailrace.sync

import scala.util.Random

import org.apache.spark.unsafe.Platform
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.RowLayout

final class NewKeysSuite extends AnyFunSuite with SyncFixture {
  private val start = Platform.BYTE_ARRAY_OFFSET.toLong

  private def keyOf(number: Int): Array[Byte] = f"key $number%09d".getBytes

  private def keys(numbers: Seq[Int], most: Int = 1 << 20): NewKeys = {
    val all = new NewKeys(settings(), KeyHash.XX64, most)
    numbers.foreach { number =>
      val key = keyOf(number)
      all.add(key, start, key.length, 50000000L + number)
    }
    all
  }

  private def has(all: NewKeys, number: Int): Boolean =
    all.has(all.codeOf(RowLayout.ofKey(keyOf(number), keyOf(number).length), start))

  test("it finds one of several, and keys of one hash") {
    val all = keys(Seq(3, 4, 5))
    def codes(numbers: Int*) = numbers.map(n => all.codeOf(RowLayout.ofKey(keyOf(n), 13), start)).toArray
    assert(all.hasOneOf(codes(1, 2, 5)) && !all.hasOneOf(codes(1, 2, 6)) && !all.hasOneOf(codes()))
    object Zero extends KeyHash {
      override def ofBytes(base: AnyRef, at: Long, length: Int): Long = 0L
    }
    val same = new NewKeys(settings(), Zero)
    same.add(keyOf(1), start, 13, 0L)
    assert(has(same, 2))
  }

  test("it knows all keys, and takes few others for one of them") {
    Seq(1, 2, 63, 64, 1000, 1024, 1025, 70000).foreach { count =>
      val numbers = new Random(count).shuffle((0 until 2 * count).toList)
      val all = keys(numbers.take(count))
      assert(numbers.take(count).forall(has(all, _)))
      val wrong = (2 * count until 2 * count + 20000).count(has(all, _))
      assert(wrong <= 3, s"$wrong of 20,000 beside $count keys")
    }
  }

  test("beyond its limit it says yes for all, and still knows the times") {
    val all = keys(0 until 4, most = 3)
    assert((0 until 100).forall(has(all, _)))
    assert(!has(keys(0 until 3, most = 3), 77))
    assert(all.reachesFrom == 45000000L && all.reachesThrough == 60000003L)
  }

  test("left rows are in reach up to the window before a right row, and the sync delay behind it") {
    assert(new NewKeys(settings(), KeyHash.XX64).isEmpty && !keys(Seq(1)).isEmpty)
    val chosen = settings(window = 10, syncDelay = 3)
    for (left <- 80L to 120L; right <- Seq(95L, 100L)) {
      val joins = right >= SyncRules.joinsFrom(left, chosen) && right <= SyncRules.joinsThrough(left, chosen)
      val reaches =
        left >= SyncRules.reachesFrom(right, chosen) && left <= SyncRules.reachesThrough(right, chosen)
      assert(joins == reaches, s"$left, $right")
    }
    assert(SyncRules.reachesThrough(Long.MaxValue - 1, chosen) == Long.MaxValue)
    assert(SyncRules.reachesFrom(Long.MinValue + 1, chosen) == Long.MinValue)
  }
}
