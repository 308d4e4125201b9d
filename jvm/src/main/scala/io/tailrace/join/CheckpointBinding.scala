package io.tailrace.join

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.types.StructType

import io.tailrace.common.{Errors, Side}

/** The checkpoint that a query has at its start.
  *
  * @param told what becomes of buffered rows, because columns have changed
  */
private[join] final case class CheckpointBinding(checkpoint: JoinCheckpoint, told: Seq[String] = Nil)

private[join] object CheckpointBinding {

  /** Pins the settings of a query: writes them into a new checkpoint, or compares them with those of an existing one.
    *
    * @param batchId the batch that is being planned, the first one of this run
    * @param join    as the query has it now
    * @param sources names of the query's, if it gives them some
    * @throws io.tailrace.common.TailraceAnalysisException if the query can't resume from the checkpoint
    */
  def of(
      directory: Path,
      conf: Configuration,
      batchId: Long,
      join: StoredJoin,
      sources: Seq[String]
  ): CheckpointBinding = {
    if (batchId == 0) JoinCheckpoint.find(directory, conf, batchId).foreach(checkFirst(directory, _, join))
    if (batchId == 0 && !JoinCheckpoint.hasState(directory, conf)) {
      val settings = join.pinned(join.columns).initial ++ first(join, batchId) ++
        join.keptColumns.map(KeptColumns.Setting -> KeptColumns(_, batchId).text)
      CheckpointBinding(JoinCheckpoint.create(directory, conf, settings, join.columns.schema, sources))
    } else resume(directory, conf, batchId, join, sources)
  }

  /** Batch 0 runs again, and without its table the rows of that would be in no batch. */
  private def checkFirst(directory: Path, written: JoinCheckpoint, join: StoredJoin): Unit = {
    written.settings.get(JoinCheckpoint.FirstInput).filterNot(join.firstInput.contains).foreach { argument =>
      val refused =
        s"`$argument` was given and is not given now, and the first micro-batch, which reads it, isn't committed"
      throw Errors.checkpointIncompatible(directory.toString, Seq(refused))
    }
  }

  private def first(join: StoredJoin, batchId: Long): Option[(String, String)] =
    join.firstInput.filter(_ => batchId == 0).map(JoinCheckpoint.FirstInput -> _)

  private def resume(
      directory: Path,
      conf: Configuration,
      batchId: Long,
      join: StoredJoin,
      sources: Seq[String]
  ): CheckpointBinding = {
    val written = JoinCheckpoint.read(directory, conf, batchId)
    // The state keeps the order of keys that it began with: the same ones in another order are no others.
    val pinned = join.pinned(join.columns.withKeysAsIn(written.settings))
    val resumed = pinned.resume(written.settings)
    val columns = SchemaChange.of(written, resumed.now, join.columns.schema, pinned.columnWords)
    val refused = resumed.refused(columns.isKnown) ++ columns.refused
    if (refused.nonEmpty) throw Errors.checkpointIncompatible(directory.toString, refused)
    val kept = join.keptColumns.map { needed =>
      val was = KeptColumns.of(written.settings, needed)
      was -> was.next(needed, batchId)
    }
    val bound = written.copy(
      settings = resumed.bound ++ first(join, batchId) ++ kept.map { case (_, next) =>
        KeptColumns.Setting -> next.text
      },
      schemas = columns.schemas,
      schema = columns.schema,
      grown = grown(resumed, written.grown)(firstBatch(batchId, directory, conf)),
      // A list that doesn't begin with the first batch would lack some.
      sources = if (written.sources.isEmpty) Nil else (written.sources ++ sources).distinct.sorted
    )
    CheckpointBinding(
      if (bound == written) written else JoinCheckpoint.write(directory, conf, bound),
      columns.told ++ kept.flatMap { case (was, next) => next.told(was) }
    )
  }

  /** @param first the first batch with the query's window */
  private def grown(resumed: ResumedSettings, before: Seq[Growth])(first: => Long): Seq[Growth] =
    if (!resumed.durations(JoinCheckpoint.After)) before
    else Growth.noted(before, first, JoinCheckpoint.duration(resumed.before, JoinCheckpoint.After).get)

  /** The first batch that no sink can have rows of. A window of this start counts from it. */
  private def firstBatch(batchId: Long, directory: Path, conf: Configuration): Long =
    if (JoinCheckpoint.hasVersion(directory, conf, _ == batchId + 1)) batchId + 1 else batchId
}

/** The consequences of other columns for a checkpoint whose query resumes.
  *
  * @param schemas the checkpoint's, with that of the query
  * @param schema  the number of the query's
  * @param isKnown whether the columns of the checkpoint are known. Otherwise their texts must be the same
  * @param refused sentences about columns that can't change so
  * @param told    what becomes of buffered rows
  */
private[join] final case class SchemaChange(
    schemas: Seq[JoinSchema],
    schema: Int,
    isKnown: Boolean,
    refused: Seq[String],
    told: Seq[String]
)

private[join] object SchemaChange {
  import JoinCheckpoint.{LeftColumns, RightColumns, RightKeys}

  /** @param settings of the query
    * @param now      the query's columns
    */
  def of(
      checkpoint: JoinCheckpoint,
      settings: Map[String, String],
      now: JoinSchema,
      words: ColumnWords
  ): SchemaChange = {
    val areSame =
      Seq(LeftColumns, RightColumns).forall(name => checkpoint.settings.get(name) == settings.get(name))
    val before =
      if (checkpoint.schemas.nonEmpty) Some(checkpoint.schemas)
      // The checkpoint is of an earlier release. With equal texts, its columns are the query's.
      else if (areSame) Some(Seq(now))
      else ofTexts(checkpoint.settings).map(Seq(_))
    before.fold(SchemaChange(Nil, 0, isKnown = false, Nil, Nil)) { schemas =>
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
      // A query that returns to earlier columns finds the rows of that time as they were.
      val known = schemas.indexOf(now)
      val (all, number) = if (known >= 0) (schemas, known) else (schemas :+ now, schemas.size)
      // If all sources that the query has had are known by name, it is known which come back.
      val returned = words.returned(checkpoint.settings, last.rightColumns, checkpoint.sources.nonEmpty)
      val told = next.flatMap(_.told) ++ lost.distinct
      SchemaChange(all, number, isKnown = true, next.flatMap(_.refused) ++ returned, told)
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

/** The columns that the state keeps of emitted left rows that may be amended, beside their keys and time, and since when. The labels of examples and the predicates of their sample need them:
  *
  * {{{
  *   batch 0    sample({"item = 5": 0.1})                        `item` from batch 0
  *   batch 7    sample({"item = 5": 0.1, "price > 9": 1.0})      `item`, `price` from batch 7
  * }}}
  *
  * Rows that were emitted before batch 7 have no price. Their amendments would be wrong, so they have none.
  */
private[join] final case class KeptColumns(names: Set[String], from: Long) {
  import KeptColumns.quoted

  /** Those of a start that needs these columns from this batch on. With fewer of them, nothing begins anew. */
  def next(needed: Set[String], batch: Long): KeptColumns =
    KeptColumns(needed, if (needed.subsetOf(names)) from else batch)

  /** As a checkpoint has it. */
  def text: String = s"${quoted(names)}${KeptColumns.From}$from"

  /** The consequence for earlier rows, for a warning; none: they are amended as ever. */
  def told(before: KeptColumns): Option[String] = Option.when(from != before.from)(
    s"those that were emitted have no ${quoted(names -- before.names)} and aren't amended any more"
  )
}

object KeptColumns {

  /** Its name among the settings of a checkpoint. It never changes. */
  val Setting = "amended rows have"
  private val From = " from batch "
  private val Name = "`((?:[^`]|``)*)`".r

  private def quoted(names: Set[String]): String =
    names.toSeq.sorted.map(quoteIdentifier).mkString(", ")

  private def read(text: String): KeptColumns = {
    val at = text.lastIndexOf(From)
    val names = Name.findAllMatchIn(text.take(at)).map(_.group(1).replace("``", "`")).toSet
    KeptColumns(names, text.drop(at + From.length).toLong)
  }

  /** @param settings of the checkpoint; without the setting, all emitted rows have the columns that are needed */
  private[join] def of(settings: Map[String, String], needed: Set[String]): KeptColumns =
    settings.get(Setting).fold(KeptColumns(needed, 0L))(read)

  /** Columns that are needed and that emitted rows lack. */
  def missing(settings: Map[String, String], needed: Set[String]): Set[String] =
    needed -- of(settings, needed).names

  /** True if rows that were emitted before this batch lack columns that are needed from it on. */
  def beginsIn(batch: Long, settings: Map[String, String]): Boolean =
    batch > 0 && settings.get(Setting).exists(read(_).from == batch)
}
