package io.tailrace.state

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceConf

final class BlockCacheSuite extends AnyFunSuite {
  private val MiB = 1L << 20

  test("the cache is as large as the largest size that a query has asked for, in any order") {
    Seq(Seq(1L, 8L, 4L), Seq(8L, 1L, 4L), Seq(4L, 1L, 8L)).foreach { sizes =>
      val cache = new BlockCache
      sizes.foreach(size => cache.ask(size * MiB))
      assert(cache.bytes == 8 * MiB, sizes)
    }
  }

  test("queries that all ask for less than the default get less, and without any query it is the default") {
    val cache = new BlockCache
    assert(cache.bytes == TailraceConf.BlockCacheBytes.default)
    cache.ask(0)
    assert(cache.bytes == 0)
    cache.ask(MiB)
    assert(cache.bytes == MiB)
  }

  test("runs share one cache until a larger one is asked for") {
    val cache = new BlockCache
    cache.ask(2 * MiB)
    val first = cache.options
    cache.ask(MiB)
    assert(cache.options eq first)
    cache.ask(3 * MiB)
    assert(cache.options ne first)
  }
}
