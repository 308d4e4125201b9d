package io.tailrace.plan

import java.io.File
import java.net.URI
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.functions.{input_file_name, struct}
import org.apache.spark.sql.tailrace.{MemoryStream, StreamAccess}
import org.apache.spark.sql.{DataFrame, Dataset, Row}

import io.tailrace.api.Tailrace
import io.tailrace.testkit.{Checkpoint, HostQueries, TempDirectory}

/** A query that is stopped and started again on a checkpoint which the test damages in between.
  *
  * @param root   the directory of the checkpoint, and of the folder of a query that lands files
  * @param before the rows of each batch so far
  */
private[plan] final class DamagedCheckpoint(
    spark: SparkSession,
    query: DamagedQuery,
    root: File,
    before: Map[Long, Seq[String]] = Map.empty
) {
  import HostQueries._
  import spark.implicits._

  private val rowsOf = new ConcurrentHashMap[Long, Seq[String]](before.asJava).asScala

  private def start(inputs: (DataFrame, DataFrame), died: Option[File] = None) = {
    val frame = query.build(inputs._1, inputs._2)
    val writer =
      if (query.lands) query.landing(frame, root)
      else
        frame.writeStream.foreachBatch { (rows: Dataset[Row], batch: Long) =>
          rowsOf(batch) = rows.collect().toSeq.map(_.toString)
          if (batch == query.diesIn) died.foreach(Checkpoint.copy(root, _))
        }
    writer.option("checkpointLocation", new File(root, "checkpoint").getPath).start()
  }

  /** Runs the query until it has read its batches, and stops it.
    *
    * @param died gets the files that a process leaves which dies in a batch
    * @return the rows of each batch
    */
  def write(died: File): Map[Long, Seq[String]] = {
    val (served, logs) = (MemoryStream[Arrived](spark), MemoryStream[Arrived](spark))
    val running = start((served.toDF(), logs.toDF()), Some(died))
    query.batches.foreach { batch =>
      StreamAccess.betweenBatches(running) {
        served.addData(batch.served)
        logs.addData(batch.logs)
      }
      running.processAllAvailable()
    }
    running.stop()
    if (query.lands) {
      Checkpoint.copy(root, died)
      Files.delete(Checkpoint.newestFirst(new File(died, "checkpoint/commits")).head.toPath)
      DamagedQueries.unland(died)
    }
    for (partitions <- query.rescaled; made <- Seq(root, died))
      Tailrace.rescale(spark, new File(made, "checkpoint").getPath, partitions)
    rowsOf.toMap
  }

  /** Starts the query again, and gives it its last batch. @return the error that has ended it */
  def attempt(): Option[Throwable] = {
    val (served, logs) = (MemoryStream[Arrived](spark), MemoryStream[Arrived](spark))
    (query.batches :+ query.end).foreach { batch =>
      served.addData(batch.served)
      logs.addData(batch.logs)
    }
    try {
      start((served.toDF(), logs.toDF())).processAllAvailable()
      None
    } catch { case NonFatal(e) => Some(e) }
    finally spark.streams.active.foreach(_.stop())
  }

  /** All rows: those of an idempotent sink, or of the folder if the query lands files. */
  def output: Seq[String] = if (query.lands) landed else rowsOf.values.flatten.toSeq.sorted

  private def landed: Seq[String] = {
    val folder = new File(root, "folder").toPath
    val files = DamagedCheckpoint.files(folder).filterNot(_.startsWith(folder.resolve("_tailrace")))
    val (data, marks) = files.partition(_.toString.endsWith(".parquet"))
    val read = spark.read.schema("host string, at timestamp, id long").parquet(data.map(_.toString): _*)
    val rows = read.select(input_file_name(), struct("host", "at", "id")).collect().map { row =>
      s"${folder.relativize(Path.of(URI.create(row.getString(0)))).getParent}: ${row.getStruct(1)}"
    }
    (rows.toSeq ++ marks.map(folder.relativize(_).toString)).sorted
  }
}

private[plan] object DamagedCheckpoint {

  /** The files below a directory, without the checksum files of the file system. */
  def files(directory: Path): Seq[Path] =
    if (!Files.exists(directory)) Nil
    else {
      val all = Files.walk(directory)
      try
        all.iterator.asScala
          .filter(Files.isRegularFile(_))
          .filterNot(f => f.getFileName.toString.startsWith("."))
          .toVector
          .sortBy(_.toString)
      finally all.close()
    }

  private def causes(e: Throwable): Seq[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(20).toSeq

  /** Our error condition in the chain of causes, and its message. */
  def conditionOf(e: Throwable): Option[(String, Seq[String])] = causes(e).collectFirst {
    case t: SparkThrowable if t.getCondition != null && t.getCondition.startsWith("TAILRACE_") =>
      t.getCondition -> t.getMessageParameters.values.asScala.toSeq
  }

  /** Whether an error comes from our code without a condition. */
  def isAccident(e: Throwable): Boolean = {
    val last = causes(e).last
    conditionOf(e).isEmpty && last.getStackTrace.find(!_.getClassName.startsWith("scala.")).exists { frame =>
      frame.getClassName.startsWith("io.tailrace.")
    }
  }

  /** Spark's error for an operator without a directory. */
  def isNoState(e: Throwable): Boolean = causes(e).exists {
    case t: SparkThrowable => t.getCondition == "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    case _ => false
  }

  def replace(from: File, to: File): Unit = {
    if (to.exists) TempDirectory.delete(to.toPath)
    Checkpoint.copy(from, to)
  }
}
