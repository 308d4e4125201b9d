package io.tailrace.plan

import java.io.File

import scala.util.Random

import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.tailrace.{MemoryStream, StreamAccess}

import io.tailrace.testkit.HostQueries._
import io.tailrace.testkit.{Campaign, HostQueries, ObjectStore, ObjectStoreFileSystem, SlowSuite, SparkSuite}

/** Queries whose checkpoint is in an object store, and that are started again every other batch, give the rows of a query
  * whose checkpoint is on the local disk.
  */
final class ObjectStoreQueriesSuite extends SparkSuite with SlowSuite {
  private val schedule = arrivals(8, new Random(3))

  override protected def beforeEach(): Unit = {
    super.beforeEach()
    ObjectStore.wipe("")
    ObjectStore.clear()
  }

  ObjectStoreFileSystem.configure(spark.sparkContext.hadoopConfiguration)

  private val queries = Seq(
    "a label join" -> HostQueries.labelJoin,
    "a synced join" -> HostQueries.syncJoin,
    "an accurate watermark" -> HostQueries.watermark,
    "a recursion" -> HostQueries.recursion,
    "a filter of replays" -> HostQueries.replays
  )
  queries.foreach { case (name, query) =>
    test(s"$name goes on from a checkpoint in an object store, without a rename", Campaign) {
      val expected = withDirectory(d => rowsOf(query, new File(d, "checkpoint").getPath, d, isRestarted))
      assert(expected.nonEmpty)
      val found =
        withDirectory(d => rowsOf(query, s"${ObjectStoreFileSystem.Name}/checkpoint", d, isRestarted))
      assert(found == expected)
      assert(ObjectStore.keys("").exists(_.contains("/commits/")))
      assert(!ObjectStore.counts().contains(ObjectStore.Copy))
    }
  }

  // Each client has some of them, and all in the long form.
  for {
    ((name, query), i) <- queries.zipWithIndex
    (client, j) <- Seq(ObjectStoreFileSystem.Abfs, ObjectStoreFileSystem.Gcs).zipWithIndex
    tag = if ((i + j) % 2 == 0) Campaign else Campaign.Long
  }
    test(s"$name goes on from a checkpoint in an object store by $client's requests", tag) {
      val hadoop = spark.sparkContext.hadoopConfiguration
      val expected = withDirectory(d => rowsOf(query, new File(d, "checkpoint").getPath, d, isRestarted))
      hadoop.set(ObjectStoreFileSystem.ClientKey, client)
      try {
        val found =
          withDirectory(d => rowsOf(query, s"${ObjectStoreFileSystem.Name}/checkpoint", d, isRestarted))
        assert(expected.nonEmpty && found == expected)
        val moves =
          Map(ObjectStoreFileSystem.Abfs -> ObjectStore.Rename, ObjectStoreFileSystem.Gcs -> ObjectStore.Copy)
        assert(ObjectStore.counts().contains(moves(client)))
      } finally hadoop.unset(ObjectStoreFileSystem.ClientKey)
    }

  test("a query that reads files keeps Spark's log of them in an object store") {
    withDirectory { directory =>
      val session = spark
      import session.implicits._
      val in = new File(directory, "in").getPath
      val out = new File(directory, "out").getPath
      def run(): Unit = spark.readStream
        .schema("value int")
        .parquet(in)
        .writeStream
        .format("parquet")
        .trigger(Trigger.AvailableNow())
        .option("checkpointLocation", s"${ObjectStoreFileSystem.Name}/checkpoint")
        .start(out)
        .awaitTermination()
      Seq(1, 2).foreach { i =>
        Seq(i).toDF("value").write.mode("append").parquet(in)
        run()
      }
      assert(spark.read.parquet(out).as[Int].collect().toSet == Set(1, 2))
      assert(ObjectStore.keys("checkpoint/sources/0/").size == 2)
    }
  }

  test("Spark's logs of a running query that reads files are a PUT an entry") {
    withDirectory { directory =>
      val session = spark
      import session.implicits._
      val in = new File(directory, "in").getPath
      Seq.range(0, 24).toDF("value").repartitionByRange(24, $"value").write.parquet(in)
      val query = spark.readStream
        .schema("value int")
        .option("maxFilesPerTrigger", 1)
        .parquet(in)
        .writeStream
        .format("noop")
        .trigger(Trigger.AvailableNow())
        .option("checkpointLocation", s"${ObjectStoreFileSystem.Name}/checkpoint")
        .start()
      query.awaitTermination()
      val batches = ObjectStore.keys("checkpoint/commits/").size
      assert(batches == 24)
      val entries = ObjectStore.counts(_.matches(".*/(offsets|commits|sources/0)/[0-9].*"))
      val starts = entries - ObjectStore.Put
      assert(entries(ObjectStore.Put) == 3 * batches && starts == Map(ObjectStore.Head -> 3), entries)
    }
  }

  test("a partition's version of a label join is one PUT; only a start looks for what is there") {
    withDirectory(d => rowsOf(labelJoin, s"${ObjectStoreFileSystem.Name}/checkpoint", d, _ => false))
    // Spark's own files of the state are in directories that begin with an underscore.
    val ofRows = ObjectStore.counts(_.matches(".*/state/0/0/[0-9].*"))
    val versions = ObjectStore.keys("checkpoint/state/0/0/").count(_.endsWith(".manifest"))
    assert(versions > 3 && ofRows == Map(ObjectStore.Put -> versions), ofRows)
    val looks = ObjectStore.counts(_.matches(".*/state/0/0/?"))
    assert(looks.values.sum <= 2, looks)
  }

  test("a start of a label join reads a manifest, and the bytes of each run that lives, once") {
    val restart = 6
    def isLast(batch: Int): Boolean = {
      if (batch == restart) ObjectStore.clear()
      batch == restart
    }
    withDirectory(d => rowsOf(labelJoin, s"${ObjectStoreFileSystem.Name}/checkpoint", d, isLast))
    val gets = ObjectStore.requests.filter { r =>
      r.method == ObjectStore.Get && r.key.matches(".*/state/0/0/[0-9].*")
    }
    val sizes = gets.map(_.key).distinct.map(key => key -> ObjectStore.size(key)).toMap
    assert(sizes.size > 3)
    // The manifest's text is before the runs in its file.
    assert(gets.size <= sizes.size + 1, gets)
    assert(gets.map(_.bytes).sum <= sizes.values.sum, gets)
  }

  /** The requests of a query that runs without a stop, by the directory of the checkpoint, without those of Spark. */
  private def requestsOf(query: Query): (Int, Map[String, Map[ObjectStore.Method, Int]]) = {
    withDirectory(d => rowsOf(query, s"${ObjectStoreFileSystem.Name}/checkpoint", d, _ => false))
    val own = ObjectStore.requests.filter(_.key.startsWith("checkpoint/tailrace-"))
    val counts = own.groupBy(_.key.split("/")(1)).map { case (directory, requests) =>
      directory -> requests.groupMapReduce(_.method)(_ => 1)(_ + _)
    }
    ObjectStore.keys("checkpoint/commits/").size -> counts
  }

  Seq(
    ("a filter of replays", HostQueries.replays, "tailrace-replay"),
    ("an accurate watermark", HostQueries.watermark, "tailrace-watermark"),
    ("a synced join", HostQueries.syncJoin, "tailrace-sync")
  ).foreach { case (name, query, directory) =>
    test(s"the driver's part of $name is a PUT a batch; only a start looks for what is there", Campaign) {
      val (batches, counts) = requestsOf(query)
      val start = counts(directory) - ObjectStore.Put
      // A start looks for what a rescaling has left to do.
      val turn = (counts - directory).getOrElse("tailrace-rescale", Map.empty)
      assert(turn.values.sum <= 2 && (counts.keySet - directory).subsetOf(Set("tailrace-rescale")), counts)
      assert(counts(directory)(ObjectStore.Put) <= batches, counts)
      assert(
        start.keySet.subsetOf(Set(ObjectStore.Head, ObjectStore.ListPage)) && start.values.sum <= 5,
        counts
      )
    }
  }

  test("a recursion's log takes at most sixteen requests a batch, one of them a PUT", Campaign) {
    val (batches, counts) = requestsOf(HostQueries.recursion)
    val ofLog = counts("tailrace-recursion")
    assert(batches > 10 && ofLog(ObjectStore.Put) <= batches && ofLog.values.sum <= 16 * batches, ofLog)
  }

  private def isRestarted(batch: Int): Boolean = batch % 2 == 1

  private def rowsOf(
      query: Query,
      checkpoint: String,
      directory: File,
      restartsBefore: Int => Boolean
  ): Seq[String] =
    withConf("spark.sql.shuffle.partitions" -> 1) {
      val session = spark
      import session.implicits._
      val served = MemoryStream[Arrived](spark)
      val logs = MemoryStream[Arrived](spark)
      val result = query(served.toDF(), logs.toDF())
      val out = new File(directory, "out").getPath
      def start(): StreamingQuery =
        result.writeStream.format("parquet").option("checkpointLocation", checkpoint).start(out)
      var running = start()
      schedule.zipWithIndex.foreach { case (batch, i) =>
        if (restartsBefore(i)) {
          running.stop()
          running = start()
        }
        StreamAccess.betweenBatches(running) {
          served.addData(batch.served)
          logs.addData(batch.logs)
        }
        running.processAllAvailable()
      }
      running.stop()
      spark.read.schema(result.schema).parquet(out).collect().map(_.toString).sorted.toSeq
    }
}
