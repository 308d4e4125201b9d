package io.tailrace.checkpoint

import java.io.{ByteArrayInputStream, FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{CheckpointCommit, CheckpointOperator, SparkCheckpoints}
import org.json4s.JsonAST.{JArray, JField, JInt, JObject, JString, JValue}
import org.json4s.jackson.JsonMethods.{compact, parse}

import io.tailrace.common.{Errors, TailraceAnalysisException, TailraceStateException}

import com.fasterxml.jackson.core.JsonProcessingException

/** Spark's own part of a query's checkpoint: the logs of its batches, and the operators with state. To read
  * it creates nothing, not even a directory.
  *
  * An entry of a log is a line with a version, a line of JSON, and maybe others:
  *
  * {{{
  *   offsets/7   v1 | {"batchWatermarkMs":..., "conf":{"spark.sql.shuffle.partitions":"4", ...}} | a source each
  *   offsets/7   v2 | the same, and more | <name of a source>:<its offset> each, in no order
  *   commits/7   v1 | {"nextBatchWatermarkMs":..., "stateUniqueIds":{"0":[["<id>"], ...]}}
  * }}}
  */
final class SparkCheckpoint(root: Path, conf: Configuration) {
  import SparkCheckpoint._

  private val manager = SparkCheckpoints.files(root, conf)
  private val files = new DurableFiles(manager)
  private val commits = new Path(root, "commits")
  private val offsets = new Path(root, "offsets")

  /** The directory of all operators' state. */
  val state = new Path(root, "state")

  /** An operator's. */
  def directory(operator: Long): Path = new Path(state, operator.toString)

  /** The batches that have completed, at least one.
    *
    * @param checkpoint as the user has named it, for errors
    */
  def completedBatches(checkpoint: String): Seq[Long] = {
    val found = numbersIn(commits).getOrElse(throw Errors.checkpointNotFound(checkpoint))
    if (found.isEmpty) throw Errors.checkpointWithoutBatch(checkpoint)
    found
  }

  def newestCompleted: Option[Long] = numbersIn(commits).flatMap(_.lastOption)

  /** The batches that have begun. The newest may not have completed. */
  def begunBatches: Seq[Long] = numbersIn(offsets).getOrElse(Nil)

  def commit(batch: Long): CheckpointCommit = {
    val path = new Path(commits, batch.toString)
    readable(path)(SparkCheckpoints.readCommit(new ByteArrayInputStream(read(path, batch))))
  }

  def operatorIds: Seq[Long] = numbersIn(state).getOrElse(Nil)

  /** @param batch the newest one that has completed */
  def operators(batch: Long): Seq[CheckpointOperator] = operatorIds.flatMap { id =>
    readable(SparkCheckpoints.metadata(directory(id))) {
      SparkCheckpoints.operator(directory(id), conf, batch)
    }
  }

  /** The number of state partitions that a batch has, or had. */
  def partitions(batch: Long): Int = {
    val path = new Path(offsets, batch.toString)
    readable(path) {
      val JString(number) = (parse(lines(path, batch)(1)) \ "conf" \ Partitions): @unchecked
      number.toInt
    }
  }

  /** The entry that Spark wrote when a batch began; none: it no longer exists. */
  def begun(batch: Long): Option[BegunBatch] = {
    val path = new Path(offsets, batch.toString)
    files.find(path).map { bytes =>
      readable(path) {
        val entry = new String(bytes, UTF_8).split("\n", -1)
        val noted = parse(entry(1))
        val JInt(timeMs) = (noted \ "batchTimestampMs"): @unchecked
        val sources = entry.toSeq.drop(2)
        val named = (if (hasNames(entry)) sources.sorted else sources).map(source(entry, _))
        BegunBatch(
          timeMs.toLong,
          noted \ "conf" \ WatermarkPolicy == JString("max"),
          named.map(_._2),
          named.map(_._1.stripSuffix(":")).filter(_.nonEmpty)
        )
      }
    }
  }

  /** The lines of a batch's entry: a version, settings, and where each source has been read to. */
  def entry(batch: Long): Array[String] = lines(new Path(offsets, batch.toString), batch)

  private def hasNames(entry: Array[String]) = entry(0).trim == "v2"

  /** The name of a source in a line of an entry, with its colon, if it has one; and its offset. */
  private def source(entry: Array[String], line: String): (String, String) =
    line.splitAt(if (hasNames(entry)) line.indexOf(':') + 1 else 0)

  /** Begins a batch without rows: it ends where the newest completed one has ended. The query runs it when it
    * starts again. A query that still runs elsewhere can no longer begin that batch, and ends with an error.
    *
    * @throws org.apache.hadoop.fs.FileAlreadyExistsException if the batch has begun
    */
  def beginEmptyBatch(completed: Long): Unit =
    begin(completed + 1, emptyBatch(completed, partitions(completed)))

  /** The entry of such a batch.
    *
    * @param number of state partitions
    */
  def emptyBatch(completed: Long, number: Int): String = {
    val watermark = commit(completed).watermarkMs
    val entry = edited(new Path(offsets, completed.toString), completed) { before =>
      withPartitions(number)(before).transformField { case ("batchWatermarkMs", _) =>
        "batchWatermarkMs" -> JInt(watermark)
      }
    }
    new String(entry, UTF_8)
  }

  /** Begins a batch.
    *
    * @throws org.apache.hadoop.fs.FileAlreadyExistsException if it has begun
    */
  def begin(batch: Long, entry: String): Unit =
    files.create(new Path(offsets, batch.toString))(_.write(entry.getBytes(UTF_8)))

  /** The whole entry of a batch, if it has begun. */
  def entryText(batch: Long): Option[String] =
    files.find(new Path(offsets, batch.toString)).map(new String(_, UTF_8))

  /** Rewrites the offsets of the sources in a batch's entry, by one write. */
  def setOffsets(batch: Long)(change: String => String): Unit = {
    val before = entry(batch)
    val sources = before.drop(2).map { line =>
      val (name, offset) = source(before, line)
      name + change(offset)
    }
    replaceEntry(batch, (before.take(2) ++ sources).mkString("\n"))
  }

  /** Rewrites the entry of a batch. */
  def replaceEntry(batch: Long, entry: String): Unit =
    files.write(new Path(offsets, batch.toString))(_.write(entry.getBytes(UTF_8)))

  /** Gives a batch another number of state partitions, by one write. */
  def setPartitions(batch: Long, number: Int): Unit =
    edit(new Path(offsets, batch.toString), batch)(withPartitions(number))

  private def withPartitions(number: Int)(entry: JValue): JValue = entry.transformField {
    // The second is Spark's, for stateful operators alone, where a query has it.
    case (name @ (Partitions | StatefulPartitions), _) => name -> JString(number.toString)
  }

  /** Writes the ids of stores after a batch, in checkpoint format 2: of each partition of an operator. */
  def setCheckpointIds(batch: Long, ids: Map[Long, Seq[Seq[String]]]): Unit =
    edit(new Path(commits, batch.toString), batch) { entry =>
      val all = ids.map { case (operator, of) =>
        JField(operator.toString, JArray(of.map(stores => JArray(stores.map(JString(_)).toList)).toList))
      }
      entry.transformField { case ("stateUniqueIds", JObject(before)) =>
        "stateUniqueIds" -> JObject(before.filterNot(field => all.exists(_._1 == field._1)) ++ all)
      }
    }

  /** Writes the query's watermark of a batch. It decides which rows of the next batch are late. */
  def setWatermarkOf(batch: Long, watermarkMs: Long): Unit =
    edit(new Path(offsets, batch.toString), batch)(_.transformField { case ("batchWatermarkMs", _) =>
      "batchWatermarkMs" -> JInt(watermarkMs)
    })

  /** Writes the query's watermark after a batch. */
  def setWatermark(batch: Long, watermarkMs: Long): Unit =
    edit(new Path(commits, batch.toString), batch)(_.transformField { case ("nextBatchWatermarkMs", _) =>
      "nextBatchWatermarkMs" -> JInt(watermarkMs)
    })

  /** Writes for Spark's readers the number of partitions of an operator's state.
    *
    * @param batch the newest one that has completed
    */
  def setMetadata(operator: Long, number: Int, batch: Long): Unit = {
    val path = SparkCheckpoints
      .newestMetadata(directory(operator), conf, batch)
      .getOrElse(new Path(SparkCheckpoints.metadata(directory(operator)), "metadata"))
    edit(path, batch) { entry =>
      entry.transformField { case ("numPartitions", _) => "numPartitions" -> JInt(number) }
    }
  }

  private def edit(path: Path, batch: Long)(change: JValue => JValue): Unit = {
    val entry = edited(path, batch)(change)
    files.write(path)(_.write(entry))
  }

  private def edited(path: Path, batch: Long)(change: JValue => JValue): Array[Byte] = {
    val before = lines(path, batch)
    val after = readable(path)(before.updated(1, compact(change(parse(before(1))))))
    after.mkString("\n").getBytes(UTF_8)
  }

  private def lines(path: Path, batch: Long): Array[String] =
    new String(read(path, batch), UTF_8).split("\n", -1)

  private def read(path: Path, batch: Long): Array[Byte] =
    files.read(path, neededBy = s"batch $batch")

  private def numbersIn(directory: Path): Option[Seq[Long]] =
    try Some(manager.list(directory).toSeq.flatMap(_.getPath.getName.toLongOption).sorted)
    catch { case _: FileNotFoundException => None }

  /** Spark's readers throw exceptions of many types when they don't understand a file. */
  private def readable[T](path: Path)(read: => T): T =
    try read
    catch {
      // Jackson's exceptions are of this type, too: the text is truncated, or isn't JSON.
      case e: JsonProcessingException => throw Errors.stateFileCorrupt(path.toString, "it isn't JSON", e)
      case e: IOException => throw e
      case NonFatal(e) => throw Errors.stateFileCorrupt(path.toString, "Spark can't read it", e)
    }
}

/** @param timeMs          of the query's clock
  * @param takesGreatest  whether the query's watermark is the greatest of its streams'
  * @param sources        the offset that it reads up to, of each source as that writes it
  * @param names          of the sources, in version 2 of the log; numbers, if the user doesn't name them
  */
final case class BegunBatch(
    timeMs: Long,
    takesGreatest: Boolean,
    sources: Seq[String],
    names: Seq[String] = Nil
)

object SparkCheckpoint {

  /** The offset of a source that hasn't been read: it begins by its own options. */
  val Unread = "-"

  /** Spark's setting by which the sources of a query have names. */
  val NamedSources = "spark.sql.streaming.queryEvolution.enableSourceEvolution"

  /** Runs code that opens a checkpoint that a user has named. */
  def readable[T](checkpoint: String)(read: => T): T = naming(read)(Errors.stateUnreadable(checkpoint, _))

  /** Runs code that reads or writes files that a user has named. Throws Tailrace's own error even if a Spark job
    * has wrapped it.
    *
    * @param failure the error where a file system fails
    */
  def naming[T](body: => T)(failure: Throwable => Throwable): T =
    try body
    catch {
      case e: Throwable =>
        // Spark wraps the errors of its file manager, too.
        val causes = Iterator.iterate(e)(_.getCause).takeWhile(_ != null).toSeq
        throw causes
          .collectFirst { case own @ (_: TailraceStateException | _: TailraceAnalysisException) => own }
          .getOrElse(if (causes.exists(isOfFileSystem)) failure(e) else e)
    }

  private def isOfFileSystem(e: Throwable): Boolean = e match {
    case _: IOException => true
    // Thrown by a file system that only opens files, such as that of http.
    case _: UnsupportedOperationException => true
    // If the jar of a file system is missing.
    case _: ClassNotFoundException | _: NoClassDefFoundError => true
    case _ => false
  }

  private val Partitions = "spark.sql.shuffle.partitions"
  private val WatermarkPolicy = "spark.sql.streaming.multipleWatermarkPolicy"
  private val StatefulPartitions = "spark.sql.streaming.internal.stateStore.partitions"
}
