package io.tailrace.common

import org.scalatest.funsuite.AnyFunSuite

final class TailraceConfSuite extends AnyFunSuite {

  test("keys are public names: they never change") {
    assert(TailraceConf.BATCH_BUFFER_BYTES == "spark.tailrace.state.batchBufferBytes")
    assert(TailraceConf.BUCKETS_PER_WINDOW == "spark.tailrace.state.bucketsPerWindow")
    assert(TailraceConf.BLOCK_CACHE_BYTES == "spark.tailrace.state.blockCacheBytes")
  }

  test("defaults are positive") {
    assert(TailraceConf.BATCH_BUFFER_BYTES_DEFAULT > 0)
    assert(TailraceConf.BUCKETS_PER_WINDOW_DEFAULT > 0)
    assert(TailraceConf.BLOCK_CACHE_BYTES_DEFAULT > 0)
  }
}
