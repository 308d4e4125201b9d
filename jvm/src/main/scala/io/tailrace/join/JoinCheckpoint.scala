package io.tailrace.join

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.types.StructType
import org.json4s.jackson.{JsonMethods, Serialization}
import org.json4s.{Formats, JInt, NoTypeHints}

import io.tailrace.checkpoint.{CheckedText, DurableFiles, FileFormats}
import io.tailrace.common.{Durations, Errors, OwnNames}
import io.tailrace.state.{RowShapes, StateFileNames, StateLayout}

/** The settings that a checkpoint's state was written under: they say what its rows mean. The file is written
  * with the first batch and compared at every start. Its layout is in `jvm/docs/formats.md`.
  *
  * @param settings by the names that a user knows
  * @param layouts  where the state is; none if its number of partitions has never changed
  * @param schemas  that its rows have had, by their numbers; none in checkpoints of earlier formats
  * @param schema   the number of the newest one
  * @param grown    how `after` of the settings has come to be what it is
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

  /** How rows of all schemas are read. */
  def shapes: RowShapes = JoinShapes.of(schemas, schema)

  /** Where the state of so many partitions is; none if it isn't there. */
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

/** A setting that checkpoints of earlier versions don't have.
  *
  * @param named   as the query has it; none: it continues with that of the checkpoint
  * @param initial that of a new checkpoint, if none is named
  * @param earlier what a checkpoint without it means; none: it is bound to the query's at its next start
  */
final case class LaterSetting(named: Option[String], initial: String, earlier: Option[String])

object LaterSetting {

  /** A setting that the query always has, and that decides nothing about earlier rows. */
  def known(value: String): LaterSetting = LaterSetting(Some(value), value, None)
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

  /** Names of settings that a checkpoint is bound to. They never change either. */
  val Before = "before"
  val After = "after"
  val ReleaseEvery = "release_every"
  val Delay = "delay"
  val MaxAge = "max_age"
  val How = "how"
  val LateLabels = "late_labels"
  val Release = "release"
  val ExactlyOne = "exactly_one"
  val Horizons = "horizons"

  /** What the names of the settings of examples begin with: the sample's seed, and each label's. */
  val OfExamples = "examples: "

  /** The same of the settings by which the labels with an attribution share events. */
  val Credits = "credits: "
  val LeftKeys = "on (left)"

  /** A key column that nobody has named: the parts of hot keys. It never changes. */
  val Part: String = OwnNames.of("part")
  val RightKeys = "on (right)"
  val LeftTime = "left_time"
  val RightTime = "right_time"
  val LeftColumns = "left columns"
  val RightColumns = "right columns"

  /** @param directory of the operator in the checkpoint */
  private def file(directory: Path): Path = new Path(directory, "tailrace-join.json")

  /** The columns that the checkpoint of any join is bound to. */
  def settingsOf(columns: JoinColumns): Map[String, String] = keysOf(columns) ++ Map(
    LeftTime -> columns.leftTime.name,
    RightTime -> columns.rightTime.name,
    LeftColumns -> ColumnTexts.write(columns.left),
    RightColumns -> ColumnTexts.write(columns.right)
  )

  /** The settings of a query with its keys in the order of a checkpoint: the same ones in another order are no others.
    *
    * @param written  the settings of the checkpoint
    * @param settings the query's
    */
  def withKeysAsIn(
      written: Map[String, String],
      columns: JoinColumns,
      settings: Map[String, String]
  ): Map[String, String] = settings ++ keysOf(columns.withKeysAsIn(written))

  private def keysOf(columns: JoinColumns): Map[String, String] = Map(
    LeftKeys -> ColumnTexts.write(columns.leftKeys),
    RightKeys -> ColumnTexts.write(columns.rightKeys)
  )

  /** @param batchId  the batch that is being planned, the first one of this run
    * @param join     as the query has it now
    * @param sources  names of the query's, if it gives them some
    * @return what the checkpoint is bound to
    * @throws io.tailrace.common.TailraceAnalysisException if the settings are not those of the checkpoint
    */
  def bind(
      directory: Path,
      conf: Configuration,
      batchId: Long,
      join: StoredJoin,
      sources: Seq[String]
  ): BoundCheckpoint = {
    val schema = JoinSchema.of(join.columns)
    val (settings, later) = (join.boundSettings, join.settingsAddedLater)
    if (batchId == 0 && !hasState(directory, conf)) {
      val all = settings ++ later.map { case (name, s) => name -> s.named.getOrElse(s.initial) } ++
        join.keptColumns.map(KeptColumns.Setting -> KeptColumns(_, batchId).text)
      val first = JoinCheckpoint(Format, all, schemas = Seq(schema), sources = sources)
      BoundCheckpoint(write(directory, conf, first))
    } else {
      val written = read(directory, conf, batchId)
      val before = later.flatMap { case (name, s) => s.earlier.map(name -> _) } ++ written.settings
      // The state keeps the order of keys that it began with.
      val now = withKeysAsIn(written.settings, join.columns, settings) ++ later.flatMap { case (name, s) =>
        s.named.orElse(before.get(name)).map(name -> _)
      }
      val unknown = later.keySet -- before.keySet
      val names =
        (before.keySet ++ now.keySet -- unknown).filter(name => now.contains(name) || !join.mayLack(name))
      val columns =
        SchemaChange.of(written, now, schema, join.settingWords, areNamed = written.sources.nonEmpty)
      val window =
        Growth.change(join, written.grown, before, now, firstFrom(batchId, directory, conf))
      val changed =
        names.filter(name => before.get(name) != now.get(name)) -- columns.settings -- window.settings
      val told = changed.filterNot(name => join.settingsThatFollow.get(name).exists(changed))
      val changes =
        told.toSeq.sorted.flatMap(name => join.settingWords.changed(name, before.get(name), now.get(name)))
      val added = (unknown & now.keySet).toSeq.sorted
        .flatMap(name => join.newcomer(name, before).map(join.settingWords.added(name, _)))
      val refused = changes ++ added ++ columns.refused
      if (refused.nonEmpty) throw Errors.checkpointIncompatible(directory.toString, refused)
      val kept = join.keptColumns.map { needed =>
        val was = KeptColumns.of(written.settings, needed)
        was -> was.next(needed, batchId)
      }
      val bound = written.copy(
        // Rows of a time with what the query lacks now are there again if it comes back.
        settings = before.filter { case (name, _) => join.mayLack(name) } ++ now ++
          kept.map { case (_, next) => KeptColumns.Setting -> next.text },
        schemas = columns.schemas,
        schema = columns.schema,
        grown = window.grown,
        // A list that doesn't begin with the first batch would lack some.
        sources = if (written.sources.isEmpty) Nil else (written.sources ++ sources).distinct.sorted
      )
      // From now on the checkpoint is bound to them, too.
      BoundCheckpoint(
        if (bound == written) written else write(directory, conf, bound),
        columns.told ++ kept.flatMap { case (was, next) => next.told(was) }
      )
    }
  }

  /** Whether batch 0 has been tried. A sink that has its rows already doesn't ask for them again: then the version
    * that the first attempt has made is the query's state.
    */
  private def hasState(directory: Path, conf: Configuration): Boolean =
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

  /** The first batch that no sink can have rows of, which a window of this start counts from. */
  private def firstFrom(batchId: Long, directory: Path, conf: Configuration): Long =
    if (hasVersion(directory, conf, _ == batchId + 1)) batchId + 1 else batchId

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

  /** Says where the state is from now on. All else stays as the file has it by now: a query may have been started
    * since a command has read it, and may have noted its sources or columns.
    *
    * @param version    the newest one of the state
    * @param isExpected whether the command continues from the layouts that the file has by now
    * @return whether it does; if not, nothing is written
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

/** @param told what becomes of rows that wait, because columns have changed */
final case class BoundCheckpoint(checkpoint: JoinCheckpoint, told: Seq[String] = Nil)

/** What a start of a query with other columns means for its checkpoint.
  *
  * @param schemas  the checkpoint's, with that of the query
  * @param schema   the number of the query's
  * @param settings those that may differ: the texts of the columns
  * @param refused  why it can't be, as sentences
  * @param told     what becomes of rows that wait
  */
private[join] final case class SchemaChange(
    schemas: Seq[JoinSchema],
    schema: Int,
    settings: Set[String],
    refused: Seq[String],
    told: Seq[String]
)

private[join] object SchemaChange {
  import JoinCheckpoint.{LeftColumns, RightColumns, RightKeys}

  /** @param settings of the query now
    * @param now      the query's columns
    * @param areNamed whether all sources that the query has had are known by name: then it is known which come back
    */
  def of(
      checkpoint: JoinCheckpoint,
      settings: Map[String, String],
      now: JoinSchema,
      words: SettingWords,
      areNamed: Boolean
  ): SchemaChange = {
    val texts = Set(LeftColumns, RightColumns)
    val areSame = texts.forall(name => checkpoint.settings.get(name) == settings.get(name))
    val before =
      if (checkpoint.schemas.nonEmpty) Some(checkpoint.schemas)
      // Of an earlier release. With equal texts the columns are those of now.
      else if (areSame) Some(Seq(now))
      else ofTexts(checkpoint.settings).map(Seq(_))
    before.fold(SchemaChange(Nil, 0, Set.empty, Nil, Nil)) { schemas =>
      val last = schemas(checkpoint.schema)
      def changes(from: JoinSchema) = Seq(
        words.columns(Side.Left, from.leftColumns, now.leftColumns),
        words.columns(Side.Right, from.rightColumns, now.rightColumns)
      )
      val next = changes(last)
      // Rows of earlier starts may be buffered, too, and each is read by the schema that it was written with.
      val lost =
        if (now == last) Nil
        else schemas.filterNot(s => s == last || s == now).flatMap(changes(_).flatMap(_.lost))
      // A query that goes back to earlier columns finds the rows of then as they were.
      val known = schemas.indexOf(now)
      val (all, number) = if (known >= 0) (schemas, known) else (schemas :+ now, schemas.size)
      val returned = words.returned(checkpoint.settings, last.rightColumns, areNamed)
      val told = next.flatMap(_.told) ++ lost.distinct
      SchemaChange(all, number, texts, next.flatMap(_.refused) ++ returned, told)
    }
  }

  /** The columns of a checkpoint that has their texts only. */
  private def ofTexts(settings: Map[String, String]): Option[JoinSchema] = for {
    left <- settings.get(LeftColumns).flatMap(ColumnTexts.read)
    right <- settings.get(RightColumns).flatMap(ColumnTexts.read)
    keys <- settings.get(RightKeys).flatMap(ColumnTexts.read)
  } yield {
    val names = keys.map(_.name).toSet
    JoinSchema.of(left, StructType(right.filterNot(column => names(column.name))))
  }
}
