package io.tailrace.testkit

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, StandardCopyOption}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

import io.tailrace.common.TailraceConf

/** A process that joins the streams of a folder into another one, and may be told to die at a step of a file:
  *
  * {{{
  *   KillableQuery ROOT [STEP PATTERN NTH]
  * }}}
  *
  * It dies as by kill -9: nothing of it is closed, flushed or deleted. Batch n's rows go into `out/n`, whole or not at
  * all; a batch that is made again and differs leaves `out/n.differs`.
  */
object KillableQuery {

  def main(arguments: Array[String]): Unit = {
    val root = new File(arguments(0))
    // A death at a run needs one with a file of its own.
    val inlineRunBytes = if (arguments.lift(2).contains("run$")) 0L else TailraceConf.InlineRunBytes.default
    val spark = session(new File(root, "format"), inlineRunBytes)
    val death: WatchedFiles.Watcher =
      if (arguments.length == 1) (_, _) => ()
      else new Death(FileFault(FileStep.named(arguments(1)), arguments(2).r, arguments(3).toInt))
    WatchedFiles.watchedBy(death)(run(spark, root))
    spark.stop()
  }

  /** Ends the JVM where a fault would be. */
  private final class Death(fault: FileFault) extends WatchedFiles.Watcher {
    private val faults = new FileFaults(Seq(fault))

    override def apply(step: FileStep, path: org.apache.hadoop.fs.Path): Unit =
      try faults(step, path)
      catch { case _: InjectedFault => Runtime.getRuntime.halt(Killed) }
  }

  /** What a shell says of a process that died by signal 9. */
  val Killed = 137

  private def session(format: File, inlineRunBytes: Long): SparkSession = {
    val settings = Map(
      "spark.sql.extensions" -> "io.tailrace.TailraceExtensions",
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> Files.readString(format.toPath),
      TailraceConf.InlineRunBytes.key -> inlineRunBytes.toString,
      WatchedFiles.Key -> classOf[WatchedFiles].getName,
      "spark.sql.shuffle.partitions" -> "1",
      "spark.sql.session.timeZone" -> "UTC",
      "spark.ui.enabled" -> "false",
      "spark.driver.bindAddress" -> "127.0.0.1",
      "spark.driver.host" -> "127.0.0.1",
      // So that there is something to purge, and time to die in it.
      "spark.sql.streaming.minBatchesToRetain" -> "1",
      "spark.sql.streaming.stateStore.maintenanceInterval" -> "50ms"
    )
    settings
      .foldLeft(SparkSession.builder().master("local[2]")) { case (b, (key, value)) => b.config(key, value) }
      .getOrCreate()
  }

  private def run(spark: SparkSession, root: File): Unit = {
    def side(name: String, schema: String): DataFrame =
      spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(new File(root, name).getPath)
    NeverLate
      .query(NeverLate.options())(
        side("left", "k string, t timestamp, id int"),
        side("right", "k string, rt timestamp, rid int")
      )
      .writeStream
      .option("checkpointLocation", new File(root, "checkpoint").getPath)
      .trigger(Trigger.AvailableNow())
      .foreachBatch((rows: DataFrame, batch: Long) => write(new File(root, "out"), rows, batch))
      .start()
      .awaitTermination()
  }

  private def write(directory: File, rows: DataFrame, batch: Long): Unit = {
    val lines = Emitted.sorted(rows.collect().map((r: Row) => Emitted.of(r))).map(_.toString)
    val target = new File(directory, batch.toString).toPath
    val before = if (Files.exists(target)) Some(Files.readAllLines(target).asScala.toSeq) else None
    val next = new File(directory, if (before.exists(_ != lines)) s"$batch.differs" else s"$batch").toPath
    val temporary = Files.createTempFile(directory.getParentFile.toPath, "batch", "")
    Files.write(temporary, lines.asJava, UTF_8)
    Files.move(temporary, next, StandardCopyOption.ATOMIC_MOVE)
    ()
  }

  /** Writes the input of one batch. */
  def feed(root: File, number: Int, batch: NeverLate.Batch): Unit = {
    def write(side: String, rows: Seq[String]): Unit = {
      val file = new File(new File(root, side), f"$number%05d.json")
      file.getParentFile.mkdirs()
      Files.write(file.toPath, rows.asJava, UTF_8)
      // Files are read in the order of their age.
      assert(file.setLastModified(1600000000000L + number * 1000L))
    }
    write("left", batch._1.map(r => s"""{"k":"${r.k}","t":"${r.t.toInstant}","id":${r.id}}"""))
    write("right", batch._2.map(r => s"""{"k":"${r.k}","rt":"${r.rt.toInstant}","rid":${r.rid}}"""))
  }
}
