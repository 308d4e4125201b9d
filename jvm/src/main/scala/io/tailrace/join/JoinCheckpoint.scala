package io.tailrace.join

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.{JsonMethods, Serialization}
import org.json4s.{Formats, JInt, NoTypeHints}

import io.tailrace.checkpoint.{CheckedText, DurableFiles, FileFormats}
import io.tailrace.common.{Durations, Errors, OwnNames}
import io.tailrace.state.{RowShapes, StateFileNames, StateLayout}

/** The pinned settings of a checkpoint: they say what the rows of its state mean. The file is written with the first
  * batch and compared at every start ([[CheckpointBinding]]). Its layout is in `jvm/docs/formats.md`.
  *
  * @param settings by the names that a user knows
  * @param layouts  where the state is; none if its number of partitions has never changed
  * @param schemas  that its rows have had, by their numbers; none in checkpoints of earlier formats
  * @param schema   the number of the newest one
  * @param grown    the changes of `after`, oldest first
  * @param sources  names of all that the query has had, if it has named them from its first batch on
  */
final case class JoinCheckpoint(
    format: Int,
    settings: Map[String, String],
    layouts: Seq[StateLayout] = Nil,
    schemas: Seq[JoinSchema] = Nil,
    schema: Int = 0,
    grown: Seq[Growth] = Nil,
    sources: Seq[String] = Nil
) {

  /** The conversion of rows of all schemas to the newest one. */
  def shapes: RowShapes = JoinShapes.of(schemas, schema)

  /** The place of the state of this many partitions; none if it isn't there. */
  def findLayout(partitions: Int): Option[StateLayout] =
    if (layouts.isEmpty) Some(StateLayout(partitions, StateLayout.FirstStore))
    else layouts.find(_.partitions == partitions)

  /** The same where it must be there.
    *
    * @param directory of the operator, for errors
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_PARTITIONS if it isn't
    */
  def layout(partitions: Int, directory: Path): StateLayout = findLayout(partitions).getOrElse {
    val found = layouts.map(_.partitions).mkString(" or ")
    throw Errors.statePartitions(directory.toString, partitions, found)
  }

  /** The same for a run of the query.
    *
    * @param ids of how many partitions the last batch has ids. One that has committed elsewhere while a rescaling
    *            turned has those of the former partitions
    */
  def layout(partitions: Int, directory: Path, ids: Option[Int]): StateLayout = {
    // More of them are left of a larger number.
    ids.filter(_ < partitions).foreach { found =>
      throw Errors.statePartitions(directory.toString, partitions, found.toString)
    }
    layout(partitions, directory)
  }
}

object JoinCheckpoint {
  private val FirstFormatNumber = 1
  private val OldestFormat = 2
  // Without names of sources a file says nothing that the format before can't.
  private val WithoutSources = 4
  private val Format = 5
  private val known =
    new FileFormats("the settings of a join", oldest = FirstFormatNumber, newest = FirstFormatNumber)
  private val checked = new CheckedText("tailrace-join", "the settings of a join", OldestFormat, Format)
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** The joins, as Spark's metadata of a checkpoint name them. They never change. */
  val LabelJoin = "tailraceLabelJoin"
  val SyncJoin = "tailraceSyncJoin"
  val AsOf = "tailraceAsOf"
  val operatorNames: Set[String] = Set(LabelJoin, SyncJoin, AsOf)

  /** Names of pinned settings. They never change either. */
  val Before = "before"
  val After = "after"
  val ReleaseEvery = "release_every"
  val Delay = "delay"
  val MaxAge = "max_age"
  val Salted = "hot"
  val How = "how"
  val LateLabels = "late_labels"
  val Release = "release"
  val OneToOne = "exactly_one"
  val Horizons = "horizons"
  val Orphans = "orphans"

  /** Prefix of the names of the settings of examples: the sample's seed, and each label's. */
  val OfExamples = "examples: "

  /** Prefix of the names of the settings by which labels with an attribution share events. */
  val Credits = "credits: "
  val LeftKeys = "on (left)"

  /** The argument of which batch 0 reads the table. Only batch 0 compares it. */
  val FirstInput = "read by batch 0"

  /** A key column that no argument names: the parts of salted keys. It never changes. */
  val Part: String = OwnNames.of("part")
  val RightKeys = "on (right)"
  val LeftTime = "left_time"
  val RightTime = "right_time"
  val LeftColumns = "left columns"
  val RightColumns = "right columns"

  /** @param directory of the operator in the checkpoint */
  private def file(directory: Path): Path = new Path(directory, "tailrace-join.json")

  /** Writes the file of a query that has no state. */
  private[join] def create(
      directory: Path,
      conf: Configuration,
      settings: Map[String, String],
      schema: JoinSchema,
      sources: Seq[String]
  ): JoinCheckpoint =
    write(directory, conf, JoinCheckpoint(Format, settings, schemas = Seq(schema), sources = sources))

  /** True if batch 0 has been tried. A sink that has its rows already doesn't ask for them again: then the version
    * that the first attempt has made is the query's state.
    */
  private[join] def hasState(directory: Path, conf: Configuration): Boolean =
    DurableFiles.in(directory, conf).exists(file(directory)) && hasVersion(directory, conf, _ => true)

  /** True if a partition has a manifest of a version, whatever the number of partitions that it was made for. */
  private[tailrace] def hasVersion(directory: Path, conf: Configuration, isOf: Long => Boolean): Boolean = {
    val files = DurableFiles.in(directory, conf)
    def isIn(partition: Path): Boolean = files.list(partition).exists { status =>
      val name = status.getPath.getName
      if (status.isDirectory) name.startsWith(StateLayout.Prefix) && isIn(status.getPath)
      else StateFileNames.manifestVersion(name).exists(isOf)
    }
    files
      .list(directory)
      .filter(_.getPath.getName.toIntOption.nonEmpty)
      .exists(status => isIn(status.getPath))
  }

  /** A duration among the settings, in microseconds; none if they lack it. */
  def duration(settings: Map[String, String], name: String): Option[Long] =
    settings.get(name).flatMap(Durations.read)

  /** Writes the file. @return what it says */
  def write(directory: Path, conf: Configuration, checkpoint: JoinCheckpoint): JoinCheckpoint = {
    val format = if (checkpoint.sources.isEmpty) WithoutSources else Format
    val written = checkpoint.copy(format = format)
    val content = checked.encode(Serialization.write(written), directory.getName, format)
    DurableFiles.in(directory, conf).write(file(directory))(_.write(content))
    written
  }

  /** Notes the place of the state from this version on. Everything else stays as the file has it: a query may have been
    * started since a command has read it, and may have noted its sources or columns.
    *
    * @param version    the newest one of the state
    * @param isExpected true if the command continues from the layouts that the file has by now
    * @return false if it doesn't, and nothing is written
    */
  def layOut(directory: Path, conf: Configuration, version: Long, layouts: Seq[StateLayout])(
      isExpected: Seq[StateLayout] => Boolean
  ): Boolean = {
    val written = read(directory, conf, version - 1)
    val goesOn = isExpected(written.layouts)
    if (goesOn) write(directory, conf, written.copy(layouts = layouts)): Unit
    goesOn
  }

  /** The content of format 1, which has no checksum. It is still read. */
  private final case class FirstFormat(format: Int, settings: Map[String, String])

  /** @param batchId the batch that needs the file
    * @throws io.tailrace.common.TailraceStateException if it is missing, damaged, or of a later format
    */
  def read(directory: Path, conf: Configuration, batchId: Long): JoinCheckpoint = {
    val path = file(directory)
    val bytes = DurableFiles.in(directory, conf).read(path, neededBy = s"batch $batchId")
    if (bytes.headOption.contains('{'.toByte)) json(bytes, path)
    else checked.decode(bytes, path.toString, directory.getName)(Serialization.read[JoinCheckpoint])
  }

  /** The same; none if the operator is no join of ours, or its first batch hasn't been planned. */
  def find(directory: Path, conf: Configuration, batchId: Long): Option[JoinCheckpoint] =
    Option.when(DurableFiles.in(directory, conf).exists(file(directory)))(read(directory, conf, batchId))

  private def json(bytes: Array[Byte], path: Path): JoinCheckpoint = {
    def corrupt(reason: String, cause: Throwable = null) =
      Errors.stateFileCorrupt(path.toString, reason, cause)
    val json =
      try JsonMethods.parse(new String(bytes, UTF_8))
      catch { case NonFatal(e) => throw corrupt("it isn't JSON", e) }
    // First of all: the rest of another format may have another shape.
    json \ "format" match {
      case JInt(format) => known.checkFormat(format.toInt, path.toString)
      case _ => throw corrupt("it has no format")
    }
    val content =
      try json.extract[FirstFormat]
      catch { case NonFatal(e) => throw corrupt("it isn't what it was", e) }
    if (content.settings == null || content.settings.isEmpty) throw corrupt("it has no settings")
    JoinCheckpoint(content.format, content.settings)
  }
}

/** The pinned settings of the labels of `tailrace.examples`, one text per label:
  *
  * {{{
  *   examples: click    no further keys, not attributed
  *   examples: buy      further keys item BIGINT, attribution last_touch
  * }}}
  */
private[tailrace] object LabelSettings {
  private val NotAttributed = ", not attributed"
  private val Attributed = ", attribution "
  private val Further = "further keys "

  /** Further keys and attribution. */
  def parts(bound: String): (Option[String], Option[String]) = {
    val at = bound.lastIndexOf(Attributed)
    val keys = if (at >= 0) bound.take(at) else bound.stripSuffix(NotAttributed)
    val attribution = Option.when(at >= 0)(bound.drop(at + Attributed.length))
    Option.when(keys.startsWith(Further))(keys.stripPrefix(Further)) -> attribution
  }

  /** Key columns of labels that not all labels have. The state is by the others: it has events with these inside, and so
    * have the touches of impressions.
    *
    * @param settings of the checkpoint
    * @return pairs of a label and a column of the impressions
    */
  def furtherKeys(settings: Map[String, String]): Seq[(String, String)] = for {
    (label, (keys, _)) <- labels(settings)
    column <- keys.flatMap(ColumnTexts.read(_)).toSeq.flatten
  } yield label -> column.name

  /** Labels whose events impressions share. Each impression has a touch for them among the right rows of the state.
    *
    * @param settings of the checkpoint
    */
  def attributed(settings: Map[String, String]): Seq[String] =
    labels(settings).collect { case (label, (_, Some(_))) => label }

  private def labels(settings: Map[String, String]): Seq[(String, (Option[String], Option[String]))] =
    settings.toSeq.sorted.collect {
      case (setting, bound) if setting.startsWith(JoinCheckpoint.OfExamples) =>
        setting.stripPrefix(JoinCheckpoint.OfExamples) -> parts(bound)
    }
}

/** A change of `after`, from a batch on: the first one that no sink can have rows of. An interrupted batch may have
  * given its rows to a sink, so it runs again with its former window.
  *
  * {{{
  *   after = 1 day, and from batch 7 on 10 minutes        the watermark is noon
  *
  *   batch 7    rows up to 11:50 are emitted. Downstream the watermark is still noon less a day: rows from
  *              yesterday's noon on aren't late there
  *   batch 8    downstream it is noon less 10 minutes
  * }}}
  *
  * @param after until then, in microseconds
  */
final case class Growth(batch: Long, after: Long)

object Growth {

  /** The window's `after` in a batch, and in those before it; none: it is that of the settings, or as it was. */
  def of(batch: Long, grown: Seq[Growth]): (Option[Long], Option[Long]) =
    (grown.find(_.batch > batch).map(_.after), grown.find(_.batch == batch).map(_.after))

  /** The longest `after` of rows that this batch and earlier ones emit; 0 if it is that of the settings.
    */
  def longestUntil(batch: Long, grown: Seq[Growth]): Long =
    grown.filter(_.batch >= batch).map(_.after).maxOption.getOrElse(0L)

  /** The windows of a checkpoint whose query has another one from this start on.
    *
    * @param grown the checkpoint's
    * @param first the first batch with the query's window
    * @param after until then, in microseconds
    */
  private[join] def noted(grown: Seq[Growth], first: Long, after: Long): Seq[Growth] =
    // That of an earlier start hasn't begun: the window changes once.
    if (grown.exists(_.batch == first)) grown else grown :+ Growth(first, after)
}
