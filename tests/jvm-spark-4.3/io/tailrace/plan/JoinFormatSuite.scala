package io.tailrace.plan

import java.io.File

import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.plan.MixedStateSuite.{Provider, RocksDB}
import io.tailrace.testkit.{NeverLate, SparkSuite, StreamHarness}

/** The newest format of the state of Spark's joins, in a query that has a join of ours, too. */
final class JoinFormatSuite extends SparkSuite {
  private def query(l: DataFrame, r: DataFrame): DataFrame = {
    def delayed(rows: DataFrame, time: String) = rows.withWatermark(time, "40 seconds")
    val again = delayed(r, "rt").select(col("k").as("again"), col("rt"), col("rid"))
    Tailrace
      .join(delayed(l, "t"), delayed(r, "rt"), Seq("k" -> "k"), NeverLate.options())
      .join(again, expr("k = again and rt between t and t + interval 20 seconds"), "left_outer")
  }

  /** All rows that come out over a restart. */
  private def rows(format: Int): Seq[Row] = withDirectory { directory =>
    withConf("spark.sql.streaming.join.stateFormatVersion" -> format, Provider -> RocksDB) {
      val harness = new StreamHarness(spark, new File(directory, "checkpoint"))(query).start()
      (1 to 4).foreach { i =>
        val (served, engaged) = NeverLate.batch(i, new scala.util.Random(i.toLong))
        harness.rows(served, engaged): Unit
        if (i == 2) harness.restart(): Unit
      }
      harness.rows(NeverLate.end._1, NeverLate.end._2): Unit
      harness.stop()
      harness.allRows.sortBy(_.toString)
    }
  }

  test("a join of Spark's on state format 4 above a join of ours gives what it gives on format 2") {
    val expected = rows(2)
    assert(expected.size > 30)
    assert(rows(4) == expected)
  }
}
