package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow

import io.tailrace.testkit.{Slow, SparkSuite}

final class KeptHopSuite extends SparkSuite {
  private def rows(partitions: Int): RDD[InternalRow] =
    spark.sparkContext.parallelize(0 until 12, partitions).map(InternalRow(_))

  private def keep(rows: RDD[InternalRow]): RDD[InternalRow] = rows.persist(ShuffledFixpoint.Storage)

  private def deepest(rdd: RDD[_]): Int = 1 + rdd.dependencies.map(d => deepest(d.rdd)).maxOption.getOrElse(0)

  test("a hop has no more partitions than it may, however many it is made with") {
    val kept = new KeptHop(keep, 4)(spark.sparkContext.union(Seq.fill(5)(rows(3))))
    assert(kept.getNumPartitions == 4)
    assert(kept.map(_.getInt(0)).collect().sorted.toSeq == (0 until 12).flatMap(Seq.fill(5)(_)))
    assert(new KeptHop(keep, 4)(rows(3)).getNumPartitions == 3)
  }

  test("the way back from a hop to the first one stays short, and the rows are there", Slow) {
    val hop = new KeptHop(keep, 4)
    var last = rows(2)
    val depths = (1 to 100).map { _ =>
      last = hop(last.map(row => InternalRow(row.getInt(0) + 1)))
      assert(last.count() == 12)
      deepest(last)
    }
    assert(depths.max <= 70)
    assert(last.map(_.getInt(0)).collect().sorted.toSeq == (100 until 112))
  }

  test("few rows are worth few partitions") {
    assert(Seq(0L, 9999L, 10000L, 25000L).map(KeptHop.partitionsFor) == Seq(1, 1, 1, 2))
    assert(KeptHop.partitionsFor(Long.MaxValue) == Int.MaxValue)
  }

  test("results of hops of different sizes are one RDD with the partitions of the widest") {
    val all = new HopsRDD(spark.sparkContext, Seq(rows(1), rows(3), rows(2)))
    assert(all.getNumPartitions == 3)
    assert(all.map(_.getInt(0)).collect().sorted.toSeq == (0 until 12).flatMap(Seq.fill(3)(_)))
    assert(new HopsRDD(spark.sparkContext, Nil).collect().isEmpty)
  }

  test("only what comes of the argument's own partition is computed in place") {
    val argument = new ArgumentRDD(spark.sparkContext, 2)
    val mapped = argument.map(identity)
    assert(ArgumentRDD.isComputedInPlace(mapped.zipPartitions(argument)(_ ++ _)))
    assert(ArgumentRDD.isComputedInPlace(rows(2)))
    Seq(
      mapped.coalesce(2),
      mapped.coalesce(1),
      mapped.union(argument),
      mapped.cartesian(rows(1)),
      mapped.repartition(2)
    )
      .foreach(rdd => assert(!ArgumentRDD.isComputedInPlace(rdd), rdd))
  }
}
