package io.tailrace.ops.rescale

import java.io.File

import org.apache.spark.sql.DataFrame

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceStateException
import io.tailrace.plan.MixedStateSuite.{Provider, RocksDB}
import io.tailrace.testkit.{NeverLate, StreamHarness}

/** Queries with state of Spark's own operators beside a join's. Spark 4.1 can't repartition that, whatever it is. */
final class SparkOperatorsSuite extends RescaleSuite {
  private def joined(l: DataFrame, r: DataFrame): DataFrame =
    Tailrace.join(l, r, Seq("k" -> "k"), NeverLate.options())

  private def once(rows: DataFrame, time: String): DataFrame =
    rows.withWatermark(time, "40 seconds").dropDuplicates("k", time)

  test("operators of Spark are refused by name, and nothing is changed") {
    withConf(Provider -> RocksDB, "spark.sql.shuffle.partitions" -> 2) {
      withDirectory { root =>
        val harness = new StreamHarness(spark, new File(root, "checkpoint"))((l, r) =>
          joined(once(l, "t"), r.withWatermark("rt", "40 seconds"))
        ).start()
        val (served, engaged) = NeverLate.batch(1, new scala.util.Random(1))
        assert(harness.rows(served, engaged).nonEmpty)
        harness.stop()
        val e = intercept[TailraceStateException](rescale(root, 3))
        assert(e.getCondition == "TAILRACE_STATE_RESCALE_UNSUPPORTED")
        val why = s"dedupe (Spark ${spark.version} can't repartition state, Spark 4.2 can)"
        assert(e.getMessageParameters.get("operators") == why)
        assert(!new File(checkpoint(root), "tailrace-rescale").exists())
        harness.start()
        assert(harness.rows(NeverLate.end._1, NeverLate.end._2).flatten.nonEmpty)
      }
    }
  }
}
