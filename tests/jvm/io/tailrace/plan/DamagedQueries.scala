package io.tailrace.plan

import java.io.File
import java.nio.file.{Files, StandardCopyOption}
import java.sql.Timestamp

import scala.util.Random

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.functions.{col, count, size, sum, window}
import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.asof.AsOfOptions
import io.tailrace.common.TailraceConf
import io.tailrace.examples.{ExampleAttribution, ExampleLabel, ExampleOptions}
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.testkit.{Checkpoint, HostQueries, LoggedStream}
import io.tailrace.windows.{BatchFile, LandingFile, WindowOptions}

/** A query for the campaign of damages. Its output doesn't depend on how its input is cut into batches. It
  * depends on all that its operator keeps: without a host, an origin or a row it would be different.
  *
  * @param name      of the query, for errors
  * @param batches   the input before the checkpoint is damaged
  * @param end       one more batch, with which all rows that the query holds come out
  * @param diesIn    the batch in which a process dies
  * @param settings  of the session
  * @param rescaled  to so many partitions, before it goes on
  */
private[plan] final case class DamagedQuery(
    name: String,
    batches: Seq[HostQueries.Arrivals],
    end: HostQueries.Arrivals,
    diesIn: Long,
    settings: Seq[(String, Any)] = Nil,
    rescaled: Option[Int] = None
)(val build: (DataFrame, DataFrame) => DataFrame) {

  /** Whether it lands files in a folder. The others give their rows to the test. */
  def lands: Boolean = name == "windows"

  def landing(frame: DataFrame, root: File): DataStreamWriter[Row] =
    Tailrace.writeWindows(frame, new File(root, "folder").getPath, "at", WindowOptions("3 seconds"))
}

private[plan] object DamagedQueries {
  import HostQueries._

  private val steps = 8
  private val schedule = arrivals(steps, new Random(5))

  /** The remaining rows of each host, and a row of each host far ahead. */
  private val rest: Arrivals = {
    val told = schedule.flatMap(_.logs).filter(_.id >= 0).map(_.host).toSet
    val hosts = (0 until steps).map(h => h -> s"host-$h").filterNot { case (_, host) => told(host) }
    val served = schedule.flatMap(_.served).map(r => r.id -> r).toMap
    val logs = hosts.flatMap { case (h, host) =>
      (h * 3 until h * 3 + 3).map(id => served(id.toLong).copy(host = host)) :+ far(-1000L - h, host)
    }
    Arrivals(Seq(far(-5000L, "server")), logs)
  }

  private def far(id: Long, host: String): Arrived = Arrived(id, host, 0, LoggedStream.at(100000))

  private def joined(options: JoinOptions)(served: DataFrame, logs: DataFrame): DataFrame = {
    val right = logs.select(col("id"), col("host").as("from"), col("at").as("logged"))
    Tailrace
      .join(
        served.withWatermark("at", "40 seconds"),
        right.withWatermark("logged", "40 seconds"),
        Seq("id" -> "id"),
        options
      )
  }

  private val join = JoinOptions("at", "logged", "1 second")

  private def format(version: Int): (String, Any) =
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> version

  /** Each run has a file, as large ones have. */
  private val ownFiles: (String, Any) = TailraceConf.InlineRunBytes.key -> 0

  private def strategy(name: String): (String, Any) = TailraceConf.JoinStrategy.key -> name

  /** The offsets of the batch of each origin, and again those of the two batches before; in the last batch
    * all.
    */
  private def records(batch: Int, offsets: Range): Arrivals = {
    val rows =
      for { origin <- 0 until 4; (offset, i) <- offsets.zipWithIndex } yield Arrived(
        batch * 1000L + origin * 100 + i,
        s"origin-$origin",
        offset,
        new Timestamp(0)
      )
    Arrivals(rows, Nil)
  }

  /** Label joins with another number of partitions than they began with. */
  val rescaled: Seq[DamagedQuery] = Seq(1, 2).map { version =>
    DamagedQuery(s"rescaled join, format $version", schedule, rest, 6, Seq(format(version)), Some(4))(
      joined(join)
    )
  }

  /** The examples of each row come out twice, and the second label is shared by the rows of a key. */
  private def examples(served: DataFrame, logs: DataFrame): DataFrame = {
    val events = logs.selectExpr("id", "host AS from", "at AS logged").withWatermark("logged", "40 seconds")
    def label(name: String) = ExampleLabel(name, "logged", Seq("id" -> "id"), "1 second")
    Tailrace.examples(
      served.withWatermark("at", "40 seconds"),
      ExampleOptions("at", horizons = Seq("200 milliseconds"))
    )(
      events -> label("logs"),
      events -> label("shared")
        .copy(where = Some("from <> 'host-1'"), attribution = Some(ExampleAttribution("linear")))
    )
  }

  private def newest(served: DataFrame, logs: DataFrame): DataFrame =
    Tailrace.asOf(
      logs.withWatermark("at", "40 seconds"),
      served.selectExpr("id", "host AS server", "at AS seen").withWatermark("seen", "40 seconds"),
      Seq("id" -> "id"),
      AsOfOptions("at", "seen")
    )

  /** Those that 0.1.0 doesn't have. */
  val added: Seq[DamagedQuery] = Seq(
    DamagedQuery("training examples", schedule, rest, 6)(examples),
    DamagedQuery("as-of join", schedule, rest, 6, Seq(format(2)))(newest),
    DamagedQuery("join with amended rows", schedule, rest, 6)(
      joined(join.copy(amendFor = Some("10 seconds")))
    ),
    DamagedQuery("join of first matches", schedule, rest, 6)(
      joined(join.copy(`match` = "first", release = "decided"))
    ),
    DamagedQuery("join of pairs", schedule, rest, 6)(joined(join.copy(how = "inner", oneToOne = true))),
    // Left rows without a right row stay beside those that are marked.
    DamagedQuery("synced join of pairs", schedule, rest, 6)((served, logs) =>
      syncPairs(served, logs.where("id < 0 OR id % 3 <> 1"))
    )
  )

  val all: Seq[DamagedQuery] = Seq(
    DamagedQuery("label join", schedule, rest, 6, Seq(format(1)))(joined(join)),
    DamagedQuery("label join, format 2", schedule, rest, 6, Seq(format(2), ownFiles))(
      joined(join.copy(before = "1 second", how = "inner"))
    ),
    DamagedQuery("synced join", schedule, rest, 6)(syncJoin),
    DamagedQuery(
      "replays",
      (0 until 24).map(b => records(b, 3 * b - 4 until 3 * b + 3)),
      records(99, 0 until 80),
      22
    ) { (records, _) =>
      val read = records
        .where("rounds >= 0")
        .selectExpr(
          "crc32(host) AS pid",
          "0 AS part",
          "CAST(rounds AS BIGINT) AS offset",
          "host AS topic",
          "id"
        )
      Tailrace
        .filterReplays(read, ReplayOptions(Seq("pid", "part", "offset"), Seq("topic", "part", "id")))
        .select("topic", "offset")
    },
    DamagedQuery("recursion", schedule, rest, 10) { (served, _) =>
      Tailrace.recursively(served.select("id", "rounds"), RecursionOptions(mode = "feedback")) { u =>
        u.where("rounds > 0").select(col("id"), (col("rounds") - 1).as("rounds"))
      }
    },
    DamagedQuery("windows", schedule, rest, 6)((_, logs) => waiting(logs))
  ) ++ rescaled ++ added

  /** The queries of the golden checkpoints: each operator that keeps something, each shape of the label join.
    */
  val golden: Seq[DamagedQuery] = {
    val shapes = Seq(
      ("lazy", join, Seq(strategy("lazy"))),
      ("eager", join, Seq(strategy("eager"))),
      ("inner", join.copy(before = "1 second", how = "inner"), Nil)
    )
    val joins =
      for ((shape, options, settings) <- shapes; version <- Seq(1, 2))
        yield DamagedQuery(s"$shape join, format $version", schedule, rest, 6, format(version) +: settings)(
          joined(options)
        )
    val besides = Seq(1, 2).map { version =>
      val settings = Seq(format(version), MixedStateSuite.Provider -> MixedStateSuite.RocksDB)
      DamagedQuery(s"join beside other operators, format $version", schedule, rest, 6, settings)(
        (served, logs) => besideSparks(joined(join)(served, logs))
      )
    }
    joins ++ besides ++ all.filterNot(query =>
      query.name.startsWith("label join") || (rescaled ++ added).contains(query)
    )
  }

  /** Spark's operators with state above a join: their state is in the same checkpoint. */
  private def besideSparks(joined: DataFrame): DataFrame = {
    val windows = joined
      .groupBy(col("host").as("k"), window(col("at"), "3 seconds"))
      .agg(count("*").as("n"), sum(size(col("labels"))).as("labels"))
    MixedStateSuite
      .totals(windows.select(col("k"), col("window.end").as("end"), col("n"), col("labels")))
      .dropDuplicates("k", "labels")
      .select("k", "labels")
  }

  /** Makes a folder like that of a writer which died in its newest batch: some files aren't in place. */
  def unland(root: File): Unit = {
    val folder = new File(root, "folder")
    val file = Checkpoint.newestFirst(new File(folder, "_tailrace/batches"), ".batch").head
    val batch = LandingFile.decode[BatchFile](Files.readAllBytes(file.toPath), new Path(file.getPath))
    assert(batch.files.size > 1)
    batch.files.drop(1).foreach { landed =>
      val staged = new File(folder, s"_tailrace/staging/${batch.staging}/${landed.from}").toPath
      Files.createDirectories(staged.getParent)
      Files.move(new File(folder, landed.to).toPath, staged, StandardCopyOption.REPLACE_EXISTING)
    }
  }
}
