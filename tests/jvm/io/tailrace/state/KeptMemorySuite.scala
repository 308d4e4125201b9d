package io.tailrace.state

import org.apache.spark.SparkEnv
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

import io.tailrace.testkit.LocalSpark

/** The memory that operators keep from batch to batch. */
final class KeptMemorySuite extends AnyFunSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds))

  test("shares have no more than there is, all of what they ask for or nothing") {
    val memory = new KeptMemory(100)
    val (one, other) = (new KeptMemory.Share(memory), new KeptMemory.Share(memory))
    assert(one.resize(70) && !other.resize(40) && other.bytes == 0 && other.resize(30) && memory.bytes == 100)
    assert(!one.resize(71) && one.bytes == 70)
    assert(one.resize(10) && other.resize(90) && memory.bytes == 100)
  }

  test("the bytes of an owner that nobody has any more are given back") {
    val memory = new KeptMemory(100)
    def lost(): Unit = assert(new KeptMemory.Share(memory).resize(100))
    lost()
    eventually {
      System.gc()
      assert(memory.bytes == 0)
    }
  }

  test("Spark counts it among cached data, and at most half of what tasks leave to those is kept") {
    LocalSpark.session.range(1).count(): Unit
    val memory = KeptMemory.ofExecutor
    val spark = SparkEnv.get.memoryManager
    val (before, mebibyte) = (spark.storageMemoryUsed, 1L << 20)
    // Spark drops broadcasts meanwhile, which are small.
    def grown = (spark.storageMemoryUsed - before + mebibyte / 2) / mebibyte
    val share = new KeptMemory.Share(memory)
    assert(share.resize(20 * mebibyte) && grown == 20)
    assert(!share.resize(spark.maxOnHeapStorageMemory / 2) && grown == 20)
    assert(share.resize(0) && grown == 0)
    assert(KeptMemory.ofExecutor eq memory)
  }
}
