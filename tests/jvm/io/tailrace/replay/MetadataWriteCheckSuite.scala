package io.tailrace.replay

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}
import org.apache.spark.sql.tailrace.MemoryStream
import org.apache.spark.sql.{Column, DataFrame, Dataset}

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceAnalysisException
import io.tailrace.testkit.SparkSuite

/** Queries that write metadata and are refused, or are not; `tests/python/test_kafka.py` has what Kafka
  * adds.
  */
final class MetadataWriteCheckSuite extends SparkSuite {
  import spark.implicits._

  private def input: DataFrame =
    MemoryStream[(Int, Long, String)](spark).toDF().toDF("partition", "offset", "value")

  private def key(pid: Long = 1): Column =
    call_function("stream_metadata", lit(pid), $"partition", $"offset").as("key")

  private def records = input.as[(Int, Long, String)]
  private def key(rows: Dataset[(Int, Long, String)]): DataFrame =
    keyed(rows.toDF("partition", "offset", "value"))

  private def keyed(frame: DataFrame = input, pid: Long = 1): DataFrame = frame.select(key(pid), $"*")

  private def start(frame: DataFrame, mode: String = "append"): Unit = {
    val query = frame.writeStream.format("noop").outputMode(mode).start()
    try query.processAllAvailable()
    finally query.stop()
  }

  private def refused(condition: String, frame: DataFrame, mode: String = "append"): String = {
    val error = intercept[TailraceAnalysisException](start(frame, mode))
    assert(error.getCondition == s"TAILRACE_METADATA_$condition")
    error.getMessage
  }

  private val table = spark.range(5).select($"id".cast("string").as("value"), lit(1).as("more"))

  Seq[(String, () => DataFrame)](
    "repartition" -> (() => keyed().repartition(3)),
    "repartition by another column" -> (() => keyed().repartition(3, $"value")),
    "repartition before the metadata is made" -> (() => keyed(input.repartition(3))),
    "sort" -> (() => keyed().sortWithinPartitions("value")),
    "duplicates" -> (() => keyed().dropDuplicates("value")),
    "join of streams" -> (() => keyed().join(input.select($"value", $"offset".as("o")), "value")),
    "groups with state" -> (() =>
      key(
        records
          .groupByKey(_._3)
          .flatMapGroupsWithState(OutputMode.Append, GroupStateTimeout.NoTimeout) {
            (_: String, rows: Iterator[(Int, Long, String)], _: GroupState[Int]) => rows
          }
      )
    ),
    "groups by the source partition" -> (() =>
      key(records.groupByKey(_._1).flatMapGroups((_, rows) => rows))
    ),
    "rows that are in a table, too" -> (() =>
      keyed().select("key", "value").intersect(table.select(encode($"value", "utf8").as("key"), $"value"))
    ),
    "groups" -> (() => key(records.groupByKey(_._3).flatMapGroups((_, rows) => rows))),
    "groups of rows with their metadata" -> (() =>
      keyed()
        .select("key", "value")
        .as[(Array[Byte], String)]
        .groupByKey(_._2)
        .flatMapGroups((_, rows) => rows)
        .toDF("key", "value")
    ),
    "the key in another column" ->
      (() => keyed().repartition(3).select(struct($"key", $"value").as("both")))
  ).foreach { case (name, frame) =>
    test(s"refused: $name") {
      assert(refused("ORDER", frame()).contains("take originals for replays"))
    }
  }

  test("a join with a table is refused unless the table is broadcast") {
    withConf("spark.sql.autoBroadcastJoinThreshold" -> -1) {
      assert(refused("ORDER", keyed().join(table, "value")).contains("broadcast"))
      start(keyed().join(broadcast(table), "value"))
    }
    start(keyed().join(table, "value"))
  }

  Seq[(String, () => DataFrame)](
    "as it is read" -> (() => keyed()),
    "filtered, with other columns, fewer tasks" ->
      (() => keyed().where("value > 'a'").withColumn("more", upper($"value")).coalesce(1)),
    "an exchange by the source partition" -> (() => keyed().repartition(3, $"partition")),
    "one of an expression, before the metadata is made" -> (() =>
      keyed(input.repartition(3, $"partition" % 2))
    ),
    "metadata that isn't written" -> (() => keyed().drop("key").repartition(3)),
    "metadata that is read" -> (() =>
      Tailrace
        .filterReplays(keyed().withColumn("topic", lit("t")), ReplayOptions())
        .select("value")
        .repartition(3)
    ),
    "two producers" -> (() => keyed().unionAll(keyed(pid = 2)))
  ).foreach { case (name, frame) => test(s"let pass: $name")(start(frame())) }

  test("an exchange by the source partition keeps the order of its rows") {
    val source = MemoryStream[(Int, Long, String)](spark, 4)
    val rows = source.toDF().toDF("partition", "offset", "value")
    var found = Map.empty[Int, Seq[Seq[Long]]]
    val query = keyed(rows.repartition(3, $"partition")).writeStream.foreachBatch {
      (batch: DataFrame, _: Long) =>
        val read =
          batch.select(spark_partition_id(), $"partition", $"offset").as[(Int, Int, Long)].collect().toSeq
        found = read.groupBy(_._2).map { case (p, of) => p -> of.groupBy(_._1).values.map(_.map(_._3)).toSeq }
    }
    // Its rows are dealt out: each task of the source reads one of the partitions.
    source.addData((0 until 40000).map(i => (i % 4, i.toLong, "x" * (i % 300))))
    val running = query.start()
    running.processAllAvailable()
    running.stop()
    assert(found.keySet == Set(0, 1, 2, 3))
    found.values.foreach { tasks => assert(tasks.size == 1 && tasks.head == tasks.head.sorted) }
  }

  test("rows that share an offset are refused") {
    val words = explode(split($"value", " ")).as("word")
    assert(refused("SHARED", keyed().select($"key", words)).contains("explode"))
    assert(refused("SHARED", keyed(input.select($"partition", $"offset", words))).contains("explode"))
    assert(refused("SHARED", keyed().unionAll(keyed())).contains("union"))
    val own = input.select($"partition", posexplode(split($"value", " ")).as(Seq("offset", "word")))
    start(own.select(key(), $"word"))
  }

  test("each branch of a union below the metadata is checked") {
    def other(partition: Column) = input.withColumn("partition", partition)
    refused("SHARED", keyed(input.union(input)))
    refused("SHARED", keyed(input.where("partition = 0").union(input.where("partition = 1"))))
    refused("ORDER", keyed(input.union(other($"partition" + 100).repartition(4))))
    refused(
      "SHARED",
      keyed(input.union(other($"partition" + 100).withColumn("value", explode(array($"value")))))
    )
    start(keyed(input.union(other($"partition" + 100))))
    start(keyed(input.union(other($"partition" + 100).repartition(3, $"partition"))))
    val named = (name: Long) => input.withColumn("producer", lit(name))
    val byColumn = call_function("stream_metadata", $"producer", $"partition", $"offset").as("key")
    start(named(1).union(named(2)).select(byColumn, $"value"))
    refused("SHARED", named(1).union(named(1)).select(byColumn, $"value"))
  }

  test("merge_stream_metadata over several micro-batches is refused") {
    val merged = keyed().groupBy("partition").agg(call_function("merge_stream_metadata", $"key").as("key"))
    refused("MERGE", merged, "update")
  }

  test("with producerCheck = warn a refused query runs with a warning") {
    withConf("spark.tailrace.replay.producerCheck" -> "warn")(start(keyed().repartition(3)))
  }
}
