package io.tailrace.plan

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.{DataFrame, Dataset, Row}

import io.tailrace.api.Tailrace
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.{Emitted, FakeRecord, FakeTopics, NeverLate, StreamHarness, TempDirectory}

/** A query with golden checkpoints. Its plan and its input can't change any more.
  *
  * @param settings of the session
  */
private[tailrace] abstract class GoldenQuery(val name: String, val settings: Seq[(String, Any)]) {

  /** Runs the query until it holds state, and copies its files into `kept`.
    *
    * @return the rows that each batch has given
    */
  def leave(spark: SparkSession, kept: File): Map[Long, Seq[String]]

  /** Starts the query on the files in `root`, and gives it the rest of its input.
    *
    * @param before the rows that each batch has given
    * @return all rows that have come out, in order
    */
  def goOn(spark: SparkSession, root: File, before: Map[Long, Seq[String]]): Seq[String]
}

private[tailrace] object GoldenQueries {

  /** Each operator that keeps something, the label join in each of its shapes. */
  val all: Seq[GoldenQuery] =
    DamagedQueries.golden.map(new DiesInBatch(_)) ++ Seq(1, 2).map(
      new LabelJoinOfGroups(_)
    ) :+ SyncedByColumns

  /** Those that 0.1.0 doesn't have. */
  val later: Seq[GoldenQuery] =
    (DamagedQueries.rescaled ++ DamagedQueries.added).map(new DiesInBatch(_)) :+ OtherColumns

  private type Query = (DataFrame, DataFrame) => DataFrame

  private def format(version: Int): (String, Any) =
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> version

  /** A query whose process dies within a micro-batch. */
  private final class DiesInBatch(query: DamagedQuery) extends GoldenQuery(query.name, query.settings) {
    def leave(spark: SparkSession, kept: File): Map[Long, Seq[String]] = {
      val work = Files.createTempDirectory("golden").toFile
      val rows = new DamagedCheckpoint(spark, query, work).write(kept)
      TempDirectory.delete(work.toPath)
      rows.filter(_._1 <= query.diesIn)
    }

    def goOn(spark: SparkSession, root: File, before: Map[Long, Seq[String]]): Seq[String] = {
      val whole = new DamagedCheckpoint(spark, query, root, before)
      whole.attempt().foreach(throw _)
      whole.output
    }
  }

  private lazy val groups: Query = NeverLate.query(NeverLate.options())

  /** A label join that is stopped between two batches.
    *
    * @param first the query that runs the first two of them
    * @param query the one that runs the others, and goes on
    */
  private class StoppedBetweenBatches(
      name: String,
      settings: Seq[(String, Any)],
      first: Query,
      query: Query
  ) extends GoldenQuery(name, settings) {
    private val batches = Seq(1, 4, 7, 10).map(i => NeverLate.batch(i, new Random(i.toLong)))

    private def harness(spark: SparkSession, root: File): StreamHarness =
      new StreamHarness(spark, new File(root, "checkpoint"))(query)

    private def shown(rows: Seq[Emitted]): Seq[String] = rows.map(_.toString)

    def leave(spark: SparkSession, kept: File): Map[Long, Seq[String]] = {
      val h = harness(spark, kept).start(first)
      batches.take(2).foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      h.start()
      batches.drop(2).foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      h.byBatch.view.mapValues(shown).toMap
    }

    def goOn(spark: SparkSession, root: File, before: Map[Long, Seq[String]]): Seq[String] = {
      val h = harness(spark, root)
      batches.foreach { case (served, engaged) => h.preload(served, engaged) }
      h.start()
      Seq(NeverLate.batch(11, new Random(11)), NeverLate.end).foreach { case (served, engaged) =>
        h.step(served, engaged)
      }
      h.stop()
      (before.values.flatten ++ shown(h.all)).toSeq.sorted
    }
  }

  /** Its archive of 0.1.0 is older than the release. */
  private final class LabelJoinOfGroups(version: Int)
      extends StoppedBetweenBatches(
        s"label join of groups, format $version",
        Seq(format(version), "spark.sql.shuffle.partitions" -> 1),
        groups,
        groups
      )

  /** The first two batches have had other columns, in another order. Rows of both wait. */
  private object OtherColumns
      extends StoppedBetweenBatches(
        "label join of other columns",
        Seq(format(1), "spark.sql.shuffle.partitions" -> 1),
        (l, r) =>
          groups(
            l.selectExpr("'a note' AS note", "k", "t", "id"),
            r.selectExpr("k", "rt", "struct(rid) AS whole", "rid")
          ),
        (l, r) => groups(l.selectExpr("id", "k", "string(id) AS place", "t"), r.selectExpr("rid", "rt", "k"))
      )

  /** A synced join with partitions named by two columns, and by a column with nulls. In the archive of 0.1.0
    * the progress has format 1: two right partitions have one name, and the left rows without a partition
    * have the name of another one.
    */
  private object SyncedByColumns
      extends GoldenQuery("synced join by columns", Seq("spark.sql.shuffle.partitions" -> 1)) {

    private final class Topics {
      val left = new FakeTopics("golden-left")
      val right = new FakeTopics("golden-right")

      left.add("none", 0, (0 until 40 by 2).map(i => row(i, i)): _*)
      left.add("some", 0, (1 until 40 by 2).map(i => row(i, i)): _*)
      right.add("eu/west-1", 0, (0 until 40 by 3).map(i => row(i, i)): _*)
      right.add("eu-west/1", 0, (1 until 30 by 3).map(i => row(i, i)): _*)
      right.add("us/1", 0, (2 until 38 by 3).map(i => row(i, i)): _*)

      def addRest(): Unit = {
        left.add("none", 0, row(1000, 200))
        left.add("some", 0, row(1001, 200))
        right.add("eu/west-1", 0, row(2000, 100))
        right.add("eu-west/1", 0, (31 until 40 by 3).map(i => row(i, i)) :+ row(2001, 100): _*)
        right.add("us/1", 0, row(38, 38), row(2002, 100))
      }
    }

    private def row(id: Int, second: Int): FakeRecord = FakeRecord(s"k$id", second * 1000000L, id.toLong)

    private val options = SyncOptions(
      "at",
      "at",
      window = "10 seconds",
      syncDelay = "5 seconds",
      leftPartition = Seq("place"),
      rightPartition = Seq("zone", "part"),
      name = "golden"
    )

    private def joined(spark: SparkSession, topics: Topics): DataFrame = {
      val left = topics.left.frame(spark).selectExpr("nullif(topic, 'none') AS place", "k", "at", "id")
      val (zone, part) = ("split(topic, '/')[0] AS zone", "split(topic, '/')[1] AS part")
      val right = topics.right.frame(spark).selectExpr(zone, part, "k", "at", "id")
      Tailrace.syncJoin(left, right, Seq("k" -> "k"), options).selectExpr("k", "id", "id_right")
    }

    private def run(spark: SparkSession, topics: Topics, root: File): Map[Long, Seq[String]] = {
      val out = new java.util.concurrent.ConcurrentHashMap[Long, Seq[String]]
      val query = joined(spark, topics).writeStream
        .option("checkpointLocation", new File(root, "checkpoint").getPath)
        .foreachBatch { (rows: Dataset[Row], batch: Long) =>
          out.put(batch, rows.collect().map(_.toString).toSeq): Unit
        }
        .start()
      try query.processAllAvailable()
      finally query.stop()
      out.asScala.toMap
    }

    def leave(spark: SparkSession, kept: File): Map[Long, Seq[String]] = run(spark, new Topics, kept)

    def goOn(spark: SparkSession, root: File, before: Map[Long, Seq[String]]): Seq[String] = {
      val topics = new Topics
      topics.addRest()
      (before ++ run(spark, topics, root)).values.flatten.toSeq.sorted
    }
  }
}
