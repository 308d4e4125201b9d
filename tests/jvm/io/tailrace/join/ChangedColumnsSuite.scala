package io.tailrace.join

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.types.{StringType, StructField, StructType}

import io.tailrace.api.Tailrace
import io.tailrace.testkit.StreamHarness.options
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Engaged, Served, SparkSuite, StreamHarness}

/** What a checkpoint has of a query whose columns change. `tests/python/test_join_evolution.py` has the rows. */
final class ChangedColumnsSuite extends SparkSuite {
  private def query(prepare: DataFrame => DataFrame): (DataFrame, DataFrame) => DataFrame = (l, r) =>
    Tailrace.join(
      prepare(l).withWatermark("t", "0 seconds"),
      r.withWatermark("rt", "0 seconds"),
      Seq("k" -> "k"),
      options("10 seconds")
    )

  private val first = query(identity)
  private val second = query(_.withColumn("id", col("id").cast("bigint")).withColumn("city", lit("Bonn")))

  private val conf = new Configuration

  /** More columns than any row here has. */
  private def wide: String = StructType((1 to 70).map(i => StructField(s"c$i", StringType))).json

  private def operator(d: File) = new Path(d.getPath, "state/0")
  private def bound(d: File): JoinCheckpoint = JoinCheckpoint.read(operator(d), conf, 1)

  /** A query with the first columns and one with the second, with a row of each in the state. */
  private def changed(d: File): StreamHarness = {
    val h = new StreamHarness(spark, d)(first).start()
    h.step(Seq(Served("k", seconds(1), 1)), Nil)
    h.stop()
    h.start(second).step(Seq(Served("k", seconds(2), 2)), Seq(Engaged("k", seconds(2), 3)))
    h.stop()
    h
  }

  test("a checkpoint has each schema once, and a query that goes back takes the number of before") {
    withDirectory { d =>
      val h = changed(d)
      assert(
        bound(d).schemas.map(_.leftColumns.map(_.dataType.sql)) == Seq(
          Seq("STRING", "TIMESTAMP", "INT"),
          Seq("STRING", "TIMESTAMP", "BIGINT", "STRING")
        )
      )
      assert(bound(d).schema == 1 && bound(d).settings("left columns").contains("city"))
      // BIGINT to INT is no widening, so only a query of the same columns may go back.
      h.start(first).add(Seq(Served("k", seconds(3), 3)), Nil)
      val (condition, _) = failureOf(h.streaming)
      assert(condition == "TAILRACE_CHECKPOINT_INCOMPATIBLE")
      h.stop()
      h.start(query(_.withColumn("id", col("id").cast("bigint")))).step(Seq(Served("k", seconds(4), 4)), Nil)
      h.stop()
      h.start(second).step(Seq(Served("k", seconds(5), 5)), Nil)
      h.stop()
      assert(bound(d).schemas.size == 3 && bound(d).schema == 1)
    }
  }

  test("Spark's state reader and tailrace-state give rows of all schemas in the newest one") {
    withDirectory { d =>
      changed(d)
      val rows = spark.read.format("tailrace-state").load(d.getPath).where("side = 'left'")
      assert(
        rows.selectExpr("left.id", "left.city").collect().map(r => r.getLong(0) -> r.get(1)).toSet ==
          Set(1L -> null, 2L -> "Bonn")
      )
      val raw =
        spark.read.format("statestore").load(d.getPath).where("key.tailrace_store = 'left-time-sorted'")
      val decoded = raw.selectExpr("value.row").collect().map { of =>
        val bytes = of.getAs[Array[Byte]](0)
        val row = new UnsafeRow(4)
        row.pointTo(bytes, bytes.length)
        row.getLong(2) -> row.isNullAt(3)
      }
      assert(decoded.toSet == Set(1L -> true, 2L -> false))
    }
  }

  test(
    "rows of a schema that the checkpoint doesn't know, or that don't fit theirs, stop the query by name"
  ) {
    Seq[JoinCheckpoint => JoinCheckpoint](
      // The newest rows have schema 1, and it isn't there.
      c => c.copy(schemas = c.schemas.reverse.take(1), schema = 0),
      c => c.copy(schemas = Seq(c.schemas(1), c.schemas(1).copy(left = wide)), schema = 0)
    ).foreach { damage =>
      withDirectory { d =>
        val h = changed(d)
        JoinCheckpoint.write(operator(d), conf, damage(bound(d)))
        h.start(second).add(Seq(Served("x", seconds(60), 9)), Seq(Engaged("x", seconds(60), 9)))
        assert(failureOf(h.streaming)._1 == "TAILRACE_STATE_FILE_CORRUPT")
      }
    }
  }
}
