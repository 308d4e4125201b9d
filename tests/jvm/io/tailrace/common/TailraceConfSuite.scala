package io.tailrace.common

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

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

  test("the table of the documentation has each key, and no other") {
    val table = Files.readAllLines(Path.of("docs/reference/settings.md")).asScala.toSeq
    val documented =
      table.flatMap("^\\| `(spark\\.tailrace\\.\\S+)` \\|".r.findFirstMatchIn(_)).map(_.group(1))
    assert(documented.sorted == TailraceConf.all.map(_.key).sorted)
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

  test("sizes in bytes are plain numbers or have Spark's units") {
    def bytes(text: String) = TailraceConf.BatchBufferBytes.read(set(TailraceConf.BatchBufferBytes.key, text))
    Seq("4096" -> 4096L, "64k" -> (64L << 10), "16m" -> (16L << 20), "1GB" -> (1L << 30))
      .foreach { case (text, expected) => assert(bytes(text) == expected, text) }
    val key = "spark.tailrace.state.blockCacheBytes"
    assert(TailraceConf.BlockCacheBytes.read(set(key, "0")) == 0)
    val error = intercept[SparkThrowable](TailraceConf.check(set(key, "much")))
    assert(error.getMessageParameters.get("expected").contains("64k, 16m or 1g"))
  }

  test("labels are names and texts with semicolons between them") {
    val key = TailraceConf.WatermarkLabels.key
    val text = " source/stateStoreSave-0 = clicks, a = b; source/sink=the dashboard ;"
    val expected = Map("source/stateStoreSave-0" -> "clicks, a = b", "source/sink" -> "the dashboard")
    assert(TailraceConf.WatermarkLabels.read(set(key, text)) == expected)
    Seq("clicks", "=clicks", "source=", "a=b;a=c").foreach(refused(key, _))
  }

  test("a key that no setting has is refused, and the error names the most similar one") {
    val known =
      Seq("spark.tailrace.state.batchBufferBytes", "spark.sql.shuffle.partitions", "spark.tailracer.x")
    TailraceConf.checkKeys(known)
    val error =
      intercept[SparkThrowable](TailraceConf.checkKeys(known :+ "spark.tailrace.state.batchBuferBytes"))
    assert(error.getCondition == "TAILRACE_CONF_UNKNOWN")
    val parameters = error.getMessageParameters
    assert(parameters.get("key") == "spark.tailrace.state.batchBuferBytes")
    assert(parameters.get("nearest") == "spark.tailrace.state.batchBufferBytes")
  }

  test("a value that isn't allowed is refused, and the error names the key") {
    refused("spark.tailrace.state.compactionRuns", "1")
    refused("spark.tailrace.state.compactionRuns", "many")
    Seq("64 rows", "-1", "1.5m", "2t", "16m64k").foreach(refused("spark.tailrace.state.batchBufferBytes", _))
    refused("spark.tailrace.state.bucketsPerWindow", "0")
    refused("spark.tailrace.state.blockCacheBytes", "-1")
    refused("spark.tailrace.state.durability", "partial")
    refused("spark.tailrace.join.strategy", "clever")
  }
}
