package io.tailrace.join

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.{DurableFile, LocalFileManager}
import io.tailrace.common.{Durations, Errors}

/** What a checkpoint's state means: the settings that its rows were kept under. Written with the first batch, compared
  * at every start. The layout is in `jvm/docs/formats.md`.
  *
  * @param settings by the name that a user knows them under
  */
final case class JoinCheckpoint(format: Int, settings: Map[String, String])

object JoinCheckpoint {
  private val Format = 1
  private val Micros = """(\d+) microseconds""".r
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** @param directory of the operator in the checkpoint */
  private def file(directory: Path): Path = new Path(directory, "tailrace-join.json")

  /** What binds a checkpoint to the columns of any join. */
  def settingsOf(columns: JoinColumns): Map[String, String] = {
    def list(attributes: Seq[Attribute]): String =
      attributes.map(a => s"${a.name} ${a.dataType.sql}").mkString(", ")
    Map(
      "on (left)" -> list(columns.leftKeys),
      "on (right)" -> list(columns.rightKeys),
      "left_time" -> columns.leftTime.name,
      "right_time" -> columns.rightTime.name,
      "left columns" -> list(columns.left),
      "right columns" -> list(columns.right)
    )
  }

  /** @param batchId  the batch that is being planned, the first one of this run
    * @param settings of the join now
    * @param later    further ones; a checkpoint that doesn't name one of them is not bound to it
    * @throws io.tailrace.common.TailraceAnalysisException if the checkpoint was written under other settings
    */
  def check(
      directory: Path,
      conf: Configuration,
      batchId: Long,
      settings: Map[String, String],
      later: Map[String, String] = Map.empty
  ): Unit = {
    val files = LocalFileManager.forPath(directory, conf)
    val path = file(directory)
    val now = JoinCheckpoint(Format, settings ++ later)
    // As long as batch 0 isn't committed there is no state that could mean something else.
    if (batchId == 0) write(files, path, now)
    else {
      val before = read(files, path, batchId)
      val unknown = later.keySet -- before.settings.keySet
      val names = before.settings.keySet ++ now.settings.keySet -- unknown
      val changes = names.toSeq.sorted.flatMap { name =>
        val (was, is) = (before.settings.getOrElse(name, "unset"), now.settings.getOrElse(name, "unset"))
        if (was == is) None else Some(s"`$name` was '${shown(was)}' and is now '${shown(is)}'")
      }
      if (changes.nonEmpty) throw Errors.checkpointIncompatible(directory.toString, changes)
    }
  }

  /** Durations are kept in microseconds, which nobody reads. */
  private def shown(setting: String): String = setting match {
    case Micros(count) if count.length < 19 => Durations.text(count.toLong)
    case other => other
  }

  private def write(files: CheckpointFileManager, path: Path, content: JoinCheckpoint): Unit =
    DurableFile.write(files, path)(_.write(Serialization.write(content).getBytes(UTF_8)))

  /** @param batchId that needs it
    * @throws io.tailrace.common.TailraceStateException if it isn't there, or damaged
    */
  def read(directory: Path, conf: Configuration, batchId: Long): JoinCheckpoint =
    read(LocalFileManager.forPath(directory, conf), file(directory), batchId)

  private def read(files: CheckpointFileManager, path: Path, batchId: Long): JoinCheckpoint = {
    if (!files.exists(path)) throw Errors.stateFileMissing(path.toString, batchId, null)
    val text = new String(DurableFile.read(files, path), UTF_8)
    val content =
      try Option(Serialization.read[JoinCheckpoint](text))
      catch {
        case e: com.fasterxml.jackson.core.JacksonException =>
          throw Errors.stateFileCorrupt(path.toString, "it isn't JSON", e)
        // What JSON of something else meets differs from kind to kind: a mapping, a cast, an index.
        case NonFatal(e) => throw Errors.stateFileCorrupt(path.toString, "it isn't what it was", e)
      }
    content.filter(known => known.settings != null && known.settings.nonEmpty) match {
      case None => throw Errors.stateFileCorrupt(path.toString, "it has no settings")
      case Some(known) if known.format != Format =>
        throw Errors.stateFormatUnsupported(path.toString, known.format, Format, Format)
      case Some(known) => known
    }
  }
}
