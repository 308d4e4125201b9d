package io.tailrace.label

import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Literal}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.functions.{col, lit, when}
import org.apache.spark.sql.tailrace.StreamAccess
import org.apache.spark.sql.types.{IntegerType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.api.Tailrace
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Emitted, Engaged, Served, SparkSuite, StateReader, StreamHarness}

/** Left rows with a null in their key match nothing, but come out. They wait in all partitions, and other rows
  * in those of their keys, as before.
  */
class NullKeysSuite extends SparkSuite {
  private val batch = options("10 seconds").copy(releaseEvery = Some("batch"))

  private def rowsOfPartition(checkpoint: java.io.File, version: Long)(partition: Int): Int = {
    val provider = StateReader.open(spark, checkpoint, partition)
    val store = provider.getStore(version)
    try store.iterator().size
    finally {
      store.abort()
      provider.close()
    }
  }

  test("left rows with null keys wait in all partitions, and come out once") {
    withConf("spark.sql.shuffle.partitions" -> 4) {
      withDirectory { d =>
        val h = new StreamHarness(spark, d)(join(batch)).start()
        val nulls = (0 until 200).map(i => Served(null, seconds(i / 100.0), i))
        h.step(nulls, Seq(Engaged(null, seconds(1), 1), Engaged("k", seconds(1), 2)))
        val waiting = (0 until 4).map(rowsOfPartition(d, h.batchCount))
        assert(waiting.forall(_ > 20), waiting)
        assert(waiting.sum == 201)
        h.restart()
        h.step(Seq(Served("end", seconds(100), -1)), Seq(Engaged("end", seconds(100), -1)))
        assert(h.all == Emitted.sorted(nulls.map(row => Emitted(null, Some(row.id), Nil))))
      }
    }
  }

  test("a null in one of several columns is enough, whichever it is") {
    withConf("spark.sql.shuffle.partitions" -> 4) {
      withDirectory { d =>
        def query(nullFirst: Boolean)(l: DataFrame, r: DataFrame): DataFrame = {
          val more = l.withColumn("k2", when(lit(!nullFirst), lit(null).cast("int")).otherwise(lit(1)))
          val left = if (nullFirst) more.withColumn("k", lit(null).cast("string")) else more
          Tailrace.join(
            left.withWatermark("t", "0 seconds"),
            r.withColumn("k2", lit(1)).withWatermark("rt", "0 seconds"),
            Seq("k" -> "k", "k2" -> "k2"),
            batch
          )
        }
        Seq(true, false).foreach { nullFirst =>
          val checkpoint = new java.io.File(d, nullFirst.toString)
          val h = new StreamHarness(spark, checkpoint)(query(nullFirst)).start()
          h.rows((0 until 200).map(i => Served("k", seconds(i / 100.0), i)), Nil)
          val waiting = (0 until 4).map(rowsOfPartition(checkpoint, h.batchCount))
          assert(waiting.forall(_ > 20) && waiting.sum == 200, waiting)
          h.stop()
        }
      }
    }
  }

  test("rows whose keys can match go to the partitions that earlier checkpoints have them in") {
    val columns = Seq(StringType, IntegerType, LongType).zipWithIndex.map { case (kind, i) =>
      BoundReference(i, kind, nullable = true)
    }
    val before = HashPartitioning(columns, 200).partitionIdExpression
    val now = HashPartitioning(columns :+ Literal(null, LongType), 200).partitionIdExpression
    val random = new Random(3)
    (0 until 1000).foreach { _ =>
      def maybe(value: Any) = if (random.nextInt(4) == 0) null else value
      val row = InternalRow(
        maybe(UTF8String.fromString(random.nextString(random.nextInt(20)))),
        maybe(random.nextInt()),
        maybe(random.nextLong())
      )
      assert(now.eval(row) == before.eval(row))
    }
  }

  test("a chain of joins by the same key shuffles its left rows once") {
    withDirectory { d =>
      val query = (l: DataFrame, r: DataFrame) => {
        val later =
          r.select(col("k"), col("rt").as("later"), col("rid").as("rid2")).withWatermark("later", "0 seconds")
        val second = JoinOptions("t", "later", after = "20 seconds", into = "more")
        Tailrace.join(join(batch)(l, r), later, Seq("k" -> "k"), second)
      }
      val h = new StreamHarness(spark, d)(query).start()
      h.rows(Seq(Served("k", seconds(1), 1)), Seq(Engaged("k", seconds(1), 1)))
      val shuffles = StreamAccess.executedPlan(h.streaming).collect { case e: ShuffleExchangeLike => e }
      assert(shuffles.size == 3)
    }
  }
}
