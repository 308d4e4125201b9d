package io.tailrace.ops.erase

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkSession}

import io.tailrace.checkpoint.{BatchFiles, DurableFiles}
import io.tailrace.common.{CallDocument, Errors, OnFailure, Side, TailraceConf}
import io.tailrace.join.{FormerLayouts, JoinCheckpoint, LabelSettings}
import io.tailrace.ops.inspect.StateColumns
import io.tailrace.ops.rewrite._
import io.tailrace.state.{Manifest, StateLayout}

/** The subjects whose rows are erased, and the joins.
  *
  * @param where        a condition of Spark SQL
  * @param subjects     a table of them instead
  * @param operators    numbers of joins; none: all of the query's
  * @param onlyTailrace the caller accepts that state of Spark's own operators is not erased
  * @param dryRun       only reports the effect
  */
final case class EraseOptions(
    where: Option[String] = None,
    subjects: Option[DataFrame] = None,
    operators: Seq[Long] = Nil,
    onlyTailrace: Boolean = false,
    dryRun: Boolean = false
)

object EraseOptions {
  private[tailrace] def of(document: CallDocument): EraseOptions = EraseOptions(
    where = document.get("where").map(_.text),
    subjects = document.get("subjects").map(_.frame),
    operators = document("operators").list.map(_.long),
    onlyTailrace = document("only_tailrace").flag,
    dryRun = document("dry_run").flag
  )
}

/** Erases rows of a checkpoint's joins, from the state and from each version of it. The query must not run.
  *
  * {{{
  *   1  a Spark job        rewrites each partition without the rows, into files that nothing refers to yet
  *   2  manifests          of the new files, of the same version
  *   3  offsets/<next>     an empty batch: a query that runs elsewhere can no longer continue
  *   4  tailrace-join.json names the new files, by one write for each join
  *   5  the previous files are deleted, with all earlier versions, and rows already emitted
  * }}}
  *
  * Until step 4 the query resumes with its previous state. After it, the query resumes without the rows, and deletes
  * the files itself if the command has died. A second erasure repeats all steps.
  */
private[tailrace] final class Erase(session: SparkSession, checkpoint: String, options: EraseOptions) {
  private val query = new StoppedQuery(session, checkpoint, "an erasure of rows")
  private val rewrite = new StateRewrite(session, checkpoint, query.conf, "erase")
  import query.{completed, conf, named, spark, version}

  private val subjects: Subjects = (options.where, options.subjects) match {
    case (Some(where), None) => new SubjectsOfCondition(session, where)
    case (None, Some(table)) => new SubjectsOfTable(session, table)
    case (Some(where), Some(_)) =>
      val reason = "each says which rows are erased"
      throw Errors.optionConflict("tailrace.erase", "where", where, "subjects", reason)
    case (None, None) =>
      throw Errors.optionInvalid("tailrace.erase", "where", "", "a condition, unless `subjects` are given")
  }

  /** @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_IN_USE if a query runs with the checkpoint, or
    *   another command changes it
    */
  def run(): EraseReport = query.alone(runAlone())

  private[erase] def runAlone(): EraseReport = {
    query.checkStopped()
    val others = this.others
    val targets = this.targets
    val (results, manifests) =
      if (options.dryRun) write(targets)
      else {
        query.checkAlone()
        unlessReplaced(targets)(erase(targets))
      }
    report(results, manifests, others)
  }

  private def erase(targets: Seq[ErasedJoin]): (Seq[(ErasedJoin, Seq[SplitResult])], Seq[Manifest]) = {
    val written = OnFailure(targets.foreach(deleteNew))(write(targets))
    endOthers()
    turnOver(targets)
    targets.foreach(deleteFormer)
    written
  }

  /** Another command that began since, or before this one first looked, may have deleted files that this one reads. */
  private def unlessReplaced[T](targets: Seq[ErasedJoin])(body: => T): T =
    try body
    catch {
      case NonFatal(e) if !query.isNewestCommand || targets.exists(isReplaced) =>
        val inUse = query.inUse
        inUse.addSuppressed(e)
        throw inUse
    }

  /** All files that nothing refers to yet. */
  private def write(targets: Seq[ErasedJoin]): (Seq[(ErasedJoin, Seq[SplitResult])], Seq[Manifest]) = {
    val made = targets.map(target => target -> rewritten(target, target.state))
    if (!options.dryRun)
      targets.foreach(target => query.nextVersion(target.state).foreach(rewritten(target, _)))
    (made.map { case (target, (results, _)) => target -> results }, made.flatMap(_._2._2))
  }

  /** A version of a join's state without the rows, which a dry run doesn't write. */
  private def rewritten(target: ErasedJoin, state: JoinState): (Seq[SplitResult], Seq[Manifest]) = {
    val results = rewrite.split(state, target.routes(options.dryRun), target.isEager)
    val manifests = rewrite.manifests(state, results)
    if (!options.dryRun) rewrite.write(state, manifests)
    (results, manifests)
  }

  /** No query would ever delete the files of a failed erasure, which contain rows, too. */
  private def deleteNew(target: ErasedJoin): Unit = {
    val layout = target.state.after.layout
    val files = DurableFiles.in(target.directory, conf)
    (0 until layout.partitions).foreach { partition =>
      files.delete(SparkCheckpoints.partition(spark.state, target.stored.operator, partition, layout.store))
    }
  }

  /** The parts that can't be erased, in words. */
  private def others: Seq[String] = {
    if (spark.partitions(completed) != named) throw EraseErrors.rescaleCutOff(checkpoint, named)
    val files = DurableFiles.in(query.root, conf)
    val recursions = BatchFiles.directories(new Path(query.root, Erase.Recursions), files, Set.empty, "")
    if (recursions.nonEmpty) throw EraseErrors.rowsInFlight(checkpoint, recursions)
    val names = query.operators._2.map(operator => s"operator ${operator.id} (${operator.name})")
    if (names.nonEmpty && !options.onlyTailrace) throw EraseErrors.otherOperators(checkpoint, names)
    names.map(name => s"$name, whose state is Spark's own")
  }

  private def targets: Seq[ErasedJoin] = {
    val (own, _) = query.operators
    options.operators.find(number => !own.exists(_.id == number)).foreach { number =>
      val known = own.map(join => s"${join.id} (${join.name})").mkString(", ")
      throw Errors.optionInvalid("tailrace.erase", "operators", number.toString, s"one of $known")
    }
    own.map { join =>
      val stored = query.stored(join)
      val columns = StateColumns.of(stored.bound, spark.directory(join.id).toString)
      val ofLabels = LabelSettings.furtherKeys(stored.bound.settings)
      val names = new JoinNames(join.id, columns, ofLabels, session.sessionState.conf.resolver)
      val isChosen = options.operators.isEmpty || options.operators.contains(join.id)
      val (left, right) = if (isChosen) names.sides(subjects.names) else (None, None)
      if (isChosen && left.isEmpty && right.isEmpty)
        throw EraseErrors.notOfJoin(subjects.text, join.id, names.text)
      // A touch has the keys, the time and a hash: no other condition finds it. It would keep its share of events.
      if (left.nonEmpty && right.isEmpty)
        LabelSettings.attributed(stored.bound.settings).headOption.foreach { label =>
          throw EraseErrors.touches(subjects.text, label, join.id, columns.key.map(_.name))
        }
      ErasedJoin(
        spark.directory(join.id),
        stored,
        join.name,
        planned(stored),
        left.map(subjects.test(names.left, _)),
        right.map(subjects.test(names.right, _)),
        columns
      )
    }
  }

  private def planned(join: StoredState): JoinState = {
    val before = query.holding(join)
    val after = StateLayout.of(before.partitions, query.cutOffBatch(before))
    // Each partition has one version, in the new files as in the old ones.
    query.state(join, query.setOf(join, before), query.setOf(join, after))
  }

  /** A query that runs elsewhere and has nothing to do isn't seen. It would begin this batch next. */
  private def endOthers(): Unit = if (!query.isCutOff) {
    query.checkAlone()
    try spark.beginEmptyBatch(completed)
    catch { case _: FileAlreadyExistsException => throw query.inUse }
  }

  private def turnOver(targets: Seq[ErasedJoin]): Unit = {
    // An interrupted batch may have run again elsewhere, with the previous files.
    checkCompleted()
    targets.headOption.foreach { target =>
      OnFailure(turnBack(target)) {
        layOut(target, from = target.stored.bound.layouts, to = target.layouts)
        turnOver(targets.tail)
      }
    }
  }

  /** Fails if another command has switched the state since. */
  private def turnBack(target: ErasedJoin): Unit =
    JoinCheckpoint.layOut(target.directory, conf, version, target.stored.bound.layouts)(
      _ == target.layouts
    ): Unit

  private def checkCompleted(): Unit =
    if (spark.completedBatches(checkpoint).last != completed) throw query.inUse

  private def deleteFormer(target: ErasedJoin): Unit = {
    val layout = target.state.after.layout
    // Another erasure that begins after this listing has files of its own there, which aren't among these.
    FormerLayouts.deleteFiles(target.directory, conf, layout)(query.checkAlone())
    query.checkAlone()
    val left = FormerLayouts.filesOf(target.directory, conf, layout)
    if (left.nonEmpty) throw EraseErrors.remains(target.directory.toString, left)
    layOut(target, from = target.layouts, to = Seq(layout))
  }

  /** Another command may have switched the state while this one was suspended: then its files are the state. */
  private def layOut(target: ErasedJoin, from: Seq[StateLayout], to: Seq[StateLayout]): Unit = {
    query.checkAlone()
    if (!JoinCheckpoint.layOut(target.directory, conf, version, to)(_ == from))
      throw query.inUse
  }

  private def isReplaced(target: ErasedJoin): Boolean = {
    val own = Seq(target.stored.bound.layouts, target.layouts, target.layouts.take(1))
    !own.contains(JoinCheckpoint.read(target.directory, conf, completed).layouts)
  }

  private def report(
      results: Seq[(ErasedJoin, Seq[SplitResult])],
      manifests: Seq[Manifest],
      others: Seq[String]
  ): EraseReport = {
    import ErasureRoute._
    val sides = results.flatMap { case (target, parts) =>
      def erased(side: String) = parts.map(_.counts(side)).sum
      def of(side: String, applies: Boolean) =
        ErasedSide(target.stored.operator, target.name, side, applies, erased(side))
      val matches = Option.when(target.isEager)(of(Matches, target.left.nonEmpty || target.right.nonEmpty))
      Seq(of(Side.Left.name, target.left.nonEmpty), of(Side.Right.name, target.right.nonEmpty)) ++ matches
    }
    val again = Option.when(query.readsAgain) {
      s"batch ${query.begun}, which was cut off: it reads its input again, which may have such rows"
    }
    EraseReport(
      checkpoint,
      version,
      options.dryRun,
      sides,
      StateRewrite.rows(manifests),
      StateRewrite.bytes(manifests),
      others ++ again ++ Erase.Elsewhere
    )
  }
}

/** A join, and the tests of its rows.
  *
  * @param directory of its state
  * @param left      the test of left rows, if the condition applies to them
  * @param right     of right rows
  */
private final case class ErasedJoin(
    directory: Path,
    stored: StoredState,
    name: String,
    state: JoinState,
    left: Option[RowTest],
    right: Option[RowTest],
    columns: StateColumns
) {

  /** True while previous files still exist, next to the new ones. */
  val layouts: Seq[StateLayout] = Seq(state.after.layout, state.before.layout)

  /** True if rows refer to each other across runs. */
  val isEager: Boolean = stored.bound.settings.get(TailraceConf.JoinStrategy.key).contains("eager")

  def routes(dry: Boolean): RowRoutes = new ErasureRoutes(columns, left, right, dry)
}

private[erase] object Erase {

  /** The directory of the rows that a recursion feeds back. */
  private val Recursions = "tailrace-recursion"

  private val Elsewhere = Seq(
    "the query's sources and its sink",
    "former versions that the file system keeps of deleted files: trash, snapshots, an object store's versions",
    "copies on executors' disks (spark.tailrace.state.localDirectory): they are deleted a day after their last use"
  )
}

/** The result of an erasure, or of a dry run.
  *
  * @param version   of the rewritten state
  * @param rows      of the remaining state
  * @param bytes     of its files
  * @param untouched the parts that may still have rows of the subjects, in words
  */
final case class EraseReport(
    checkpoint: String,
    version: Long,
    dryRun: Boolean,
    sides: Seq[ErasedSide],
    rows: Long,
    bytes: Long,
    untouched: Seq[String]
)

/** The rows of one side of a join.
  *
  * @param name    the operator's, in the query's progress
  * @param side    "left", "right", or "matches": right rows that eager matching has found for buffered left rows
  * @param applies whether all columns of the condition are there; then `erased` is the number of rows that fulfil it
  */
final case class ErasedSide(operator: Long, name: String, side: String, applies: Boolean, erased: Long)
