package io.tailrace.common

import org.apache.spark.SparkThrowable
import org.scalatest.funsuite.AnyFunSuite

final class TailraceConfSuite extends AnyFunSuite {
  private def set(key: String, value: String): String => Option[String] = Map(key -> value).get

  private def refused(key: String, value: String): Unit = {
    val error = intercept[SparkThrowable](TailraceConf.check(set(key, value)))
    assert(error.getCondition == "TAILRACE_CONF_INVALID")
    assert(error.getMessageParameters.get("key") == key)
    assert(error.getMessageParameters.get("value") == value)
  }

  test("the keys are the ones that the README names") {
    val keys = Seq(
      TailraceConf.BatchBufferBytes.key -> "spark.tailrace.state.batchBufferBytes",
      TailraceConf.BucketsPerWindow.key -> "spark.tailrace.state.bucketsPerWindow",
      TailraceConf.BlockCacheBytes.key -> "spark.tailrace.state.blockCacheBytes",
      TailraceConf.CompactionRuns.key -> "spark.tailrace.state.compactionRuns",
      TailraceConf.StateDurability.key -> "spark.tailrace.state.durability",
      TailraceConf.JoinStrategy.key -> "spark.tailrace.join.strategy"
    )
    keys.foreach { case (key, expected) => assert(key == expected) }
  }

  test("a setting that isn't set has its default") {
    assert(TailraceConf.CompactionRuns.read(_ => None) == 32)
    assert(TailraceConf.StateDurability.read(_ => None) == Durability.Full)
    TailraceConf.check(_ => None)
  }

  test("a setting is read with spaces around it and in any case") {
    assert(TailraceConf.CompactionRuns.read(set("spark.tailrace.state.compactionRuns", " 8 ")) == 8)
    assert(
      TailraceConf.StateDurability.read(set("spark.tailrace.state.durability", "NONE")) == Durability.None
    )
  }

  test("a value that isn't allowed is refused, and the error names the key") {
    refused("spark.tailrace.state.compactionRuns", "1")
    refused("spark.tailrace.state.compactionRuns", "many")
    refused("spark.tailrace.state.batchBufferBytes", "64m")
    refused("spark.tailrace.state.bucketsPerWindow", "0")
    refused("spark.tailrace.state.blockCacheBytes", "-1")
    refused("spark.tailrace.state.durability", "partial")
    refused("spark.tailrace.join.strategy", "clever")
  }
}
