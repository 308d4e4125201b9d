package io.tailrace.label

import io.tailrace.api.Tailrace
import io.tailrace.join.JoinMetrics
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Engaged, Served, SparkSuite, StreamHarness}

/** What a sample would take in the state is what the state takes for the same rows. */
class SampledStateSuite extends SparkSuite {
  import spark.implicits._

  private val lefts = (1 to 300).map(i => Served(s"key ${i * 7919 % 1000}", seconds(i / 10.0), i))
  private val rights = (1 to 200).map(i => Engaged(s"longer key ${i * 104729 % 1000}", seconds(i / 10.0), i))
  // The state keeps neither.
  private val noRights = Seq(Engaged(null, seconds(5), 1), Engaged("k", null, 2))

  private def sampled(lefts: Seq[Served], rights: Seq[Engaged]): (SampledState, SampledState) =
    SampledState.of(
      Tailrace.join(lefts.toDF(), rights.toDF().repartition(3), Seq("k" -> "k"), options("1 minute"))
    )

  test("rows and bytes of a sample are those of the state after a micro-batch") {
    val (left, right) = sampled(lefts, rights ++ noRights)
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(join(options("1 minute"))).start()
      h.step(lefts, rights)
      val measured = h.progress()
      assert(left.rows + right.rows == measured.numRowsTotal && left.rows == 300)
      assert(left.bytes == measured.customMetrics.get(JoinMetrics.LeftStoreBytes))
      assert(right.bytes == measured.customMetrics.get(JoinMetrics.RightStoreBytes))
      // The state has a file for each of two partitions, the sample one for each of its partitions and sides.
      val files = measured.customMetrics.get(JoinMetrics.StateFileBytes).toDouble
      assert(Math.abs((left.fileBytes + right.fileBytes) / files - 1) < 0.5, s"${left.fileBytes} $files")
    }
  }

  test("a side without rows takes nothing") {
    val nothing = SampledState(0, 0, 0)
    assert(sampled(Nil, noRights) == (nothing, nothing))
  }
}
