package io.tailrace.join

import org.apache.spark.SparkConf
import org.scalatest.funsuite.AnyFunSuite

final class ClusterSettingsSuite extends AnyFunSuite {
  private def named(settings: (String, String)*): Seq[String] =
    ClusterSettings.thatMovePartitions(new SparkConf(false).setAll(settings)).map(_.takeWhile(_ != ' '))

  test("Spark's defaults move no partition") {
    assert(named().isEmpty)
    assert(named("spark.speculation" -> "false", "spark.locality.wait" -> "10s").isEmpty)
  }

  test("each setting that moves partitions is named") {
    assert(named("spark.speculation" -> "true") == Seq("spark.speculation"))
    assert(named("spark.dynamicAllocation.enabled" -> "true") == Seq("spark.dynamicAllocation.enabled"))
    assert(named("spark.locality.wait" -> "0") == Seq("spark.locality.wait"))
    assert(named("spark.locality.wait.process" -> "0s") == Seq("spark.locality.wait"))
    assert(named("spark.locality.wait" -> "0", "spark.locality.wait.process" -> "1s").isEmpty)
    assert(named("spark.speculation" -> "true", "spark.locality.wait" -> "0ms").size == 2)
  }
}
