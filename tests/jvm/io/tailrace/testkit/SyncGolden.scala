package io.tailrace.testkit

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Dataset, Row}

import io.tailrace.api.Tailrace
import io.tailrace.sync.SyncOptions

/** A synced join in the middle of its work, whose partitions are named by two columns, one by one column that is null for some
  * rows. What a release leaves of it all later ones go on from.
  */
final class SyncGolden {
  private val spark = SparkSuite.session
  val left = new FakeTopics("golden-left")
  val right = new FakeTopics("golden-right")

  private def row(id: Int, second: Int): FakeRecord = FakeRecord(s"k$id", second * 1000000L, id.toLong)

  /** The input of the checkpoint that is kept: it can't change any more. */
  def early(): Unit = {
    left.add("none", 0, (0 until 40 by 2).map(i => row(i, i)): _*)
    left.add("some", 0, (1 until 40 by 2).map(i => row(i, i)): _*)
    right.add("eu/west-1", 0, (0 until 40 by 3).map(i => row(i, i)): _*)
    right.add("eu-west/1", 0, (1 until 30 by 3).map(i => row(i, i)): _*)
    right.add("us/1", 0, (2 until 38 by 3).map(i => row(i, i)): _*)
  }

  /** What comes after it. */
  def late(): Unit = {
    left.add("none", 0, row(1000, 200))
    left.add("some", 0, row(1001, 200))
    right.add("eu/west-1", 0, row(2000, 100))
    right.add("eu-west/1", 0, (31 until 40 by 3).map(i => row(i, i)) :+ row(2001, 100): _*)
    right.add("us/1", 0, row(38, 38), row(2002, 100))
  }

  def frame: DataFrame = Tailrace
    .syncJoin(
      left.frame(spark).selectExpr("nullif(topic, 'none') AS place", "k", "at", "id"),
      right
        .frame(spark)
        .selectExpr("split(topic, '/')[0] AS zone", "split(topic, '/')[1] AS part", "k", "at", "id"),
      Seq("k" -> "k"),
      SyncOptions(
        "at",
        "at",
        window = "10 seconds",
        syncDelay = "5 seconds",
        leftPartition = Seq("place"),
        rightPartition = Seq("zone", "part"),
        name = "golden"
      )
    )
    .selectExpr("k", "id", "id_right")

  /** Runs until all is read. @return what comes out */
  def run(checkpoint: File): Seq[String] = {
    val out = new java.util.concurrent.ConcurrentSkipListMap[Long, Seq[String]]
    val query = frame.writeStream
      .option("checkpointLocation", checkpoint.getPath)
      .foreachBatch((batch: Dataset[Row], id: Long) =>
        out.put(id, batch.collect().map(_.toString).toSeq): Unit
      )
      .start()
    try query.processAllAvailable()
    finally query.stop()
    out.values.asScala.flatten.toSeq
  }
}

object SyncGolden {

  /** Makes one of this release: `<directory>/checkpoint` and `<directory>/out.txt`. */
  def main(arguments: Array[String]): Unit = {
    SparkSuite.session.conf.set("spark.sql.shuffle.partitions", "1")
    val golden = new SyncGolden
    golden.early()
    val checkpoint = Files.createTempDirectory("golden").toFile
    val out = golden.run(checkpoint)
    val target = new File(arguments(0))
    Checkpoint.copy(checkpoint, new File(target, "checkpoint"))
    Files.write(new File(target, "out.txt").toPath, out.asJava)
    SparkSuite.session.stop()
  }
}
