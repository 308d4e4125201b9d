package io.tailrace.ops.rescale

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{CheckpointOperator, SparkRepartition, SparkSession}

import io.tailrace.checkpoint.{DurableFiles, RepartitionTurn, SparkCheckpoint}
import io.tailrace.common.{Arguments, OnFailure, Side}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.ops.rewrite._
import io.tailrace.state.{CutOffBatch, Manifest, StateLayout, StoreKind}

/** The result of a rescaling, or of a dry run.
  *
  * @param before number of state partitions
  * @param after  the same
  * @param rows   in the state, which count
  * @param bytes  of the new partitions' files; of a dry run, those of the files that it would read
  * @param sides  the counts of a dry run
  */
final case class RescaleReport(
    before: Int,
    after: Int,
    rows: Long,
    bytes: Long,
    dryRun: Boolean = false,
    sides: Seq[RescaledSide] = Nil
)

/** The rows of one side of a join.
  *
  * @param name the operator's, in the query's progress
  * @param side "left" or "right"
  */
final case class RescaledSide(operator: Long, name: String, side: String, rows: Long)

/** Gives the joins of a checkpoint another number of state partitions. The query must not run meanwhile.
  *
  * {{{
  *   1  tailrace-join.json names directories for both numbers
  *   2  a Spark job        splits each partition: its rows go to the partitions of their keys, in new files
  *   3  manifests          of the new partitions, of the same version
  *   4  commits/<last>     has ids for all of them, in Spark's checkpoint format 2
  *   5  offsets/<last>     has the new number, by one write. Until here the query resumes with the old one
  *   later the query    deletes the old state, when it has completed a batch: [[io.tailrace.join.FormerLayouts]]
  * }}}
  *
  * Where Spark's own operators have state, too, steps 4 and 5 are one file first, [[RepartitionTurn]].
  *
  * Spark takes the number from the newest entry of its offset log, which may be that of a batch that hasn't
  * completed. So no batch comes in between, and the logs of other operators stay as they are.
  *
  * An example, 4 to 16 partitions, after batch 6: version 7 of partition 1 has become version 7 of the
  * partitions 1, 5, 9 and 13. Batch 7, which was killed at 12:30, runs with 16 tasks at 12:40.
  */
private[tailrace] final class Rescale(
    session: SparkSession,
    checkpoint: String,
    partitions: Int,
    dryRun: Boolean = false
) {
  new Arguments("tailrace.rescale").number("partitions", partitions.toLong, least = 1, Rescale.MostPartitions)
  private val query = new StoppedQuery(
    session,
    checkpoint,
    s"a rescaling to $partitions state partitions",
    RescaleErrors.inUse
  )
  private val rewrite = new StateRewrite(session, checkpoint, query.conf, "rescale")
  import query.{begun, completed, conf, named, spark, version}

  /** @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_RESCALE_IN_USE if a query runs with the checkpoint,
    *   or another rescaling
    */
  def run(): RescaleReport = query.alone(runAlone())

  /** Refuses operators that can't be rescaled. */
  def check(): Unit = {
    query.checkStopped()
    others.foreach(_.check())
    joins.foreach(join => cutOff(join, query.holding(join)))
  }

  /** Rescalings of other processes may run beside it. */
  private[rescale] def runAlone(): RescaleReport = {
    query.checkStopped()
    val joins = this.joins
    val others = this.others
    others.foreach(_.check())
    if (dryRun) return looked(joins)
    val layouts = joins.map(join => join -> query.holding(join))
    val before = layouts.head._2.partitions
    // The Spark job will read them first, and may find a newer format.
    if (before != partitions) joins.foreach(query.state(_).manifests(conf): Unit)
    // Nothing has changed up to here.
    query.checkAlone()
    val report =
      if (before == partitions) {
        if (named != before) spark.setPartitions(begun, before)
        RescaleReport(before, partitions, 0, 0)
      } else {
        val states = layouts.map { case (join, layout) => planned(join, layout) }
        val results = joins.zip(states).map { case (join, state) =>
          layOut(join, state)
          val next = query.nextVersion(state)
          val result = write(state)
          next.foreach(write)
          result
        }
        turnOver(states, others)
        RescaleReport(
          before,
          partitions,
          results.map(StateRewrite.rows).sum,
          results.map(StateRewrite.bytes).sum
        )
      }
    // A newer one reads the files that exist, and then names its own number.
    if (query.isNewestCommand)
      tellReaders(joins.filter(_.bound.layouts.nonEmpty || report.before != partitions))
    report
  }

  /** Counts the rows that would be moved, and writes nothing. */
  private def looked(joins: Seq[StoredState]): RescaleReport = {
    val names = query.operators._1.map(operator => operator.id -> operator.name).toMap
    val layouts = joins.map(join => join -> query.holding(join))
    val before = layouts.head._2.partitions
    val states = if (before == partitions) Nil else layouts.map { case (join, of) => planned(join, of) }
    val found = states.map { state =>
      val counts = rewrite.split(state, new PartitionRoutes(dry = true)).map(_.counts)
      (state, (what: String) => counts.map(_.getOrElse(what, 0L)).sum)
    }
    val sides =
      for ((state, rows) <- found; side <- Seq(Side.Left, Side.Right))
        yield RescaledSide(state.operator, names(state.operator), side.name, rows(side.name))
    val manifests = states.flatMap(_.manifests(conf))
    val rows = found.map { case (_, of) => of(PartitionRoutes.All) }.sum
    RescaleReport(before, partitions, rows, StateRewrite.bytes(manifests), dryRun = true, sides)
  }

  /** Updates the metadata that Spark's readers use. A rescaling that was killed after the turn has not updated it. */
  private def tellReaders(joins: Seq[StoredState]): Unit = {
    if (spark.partitions(completed) != partitions) spark.setPartitions(completed, partitions)
    joins.foreach(join => spark.setMetadata(join.operator, partitions, completed))
  }

  private def joins: Seq[StoredState] = query.operators._1.map(query.stored)

  /** Spark's own operators with state. */
  private def others: Option[SparkOperators] = {
    val operators = query.operators._2
    Option.when(operators.nonEmpty)(new SparkOperators(session, checkpoint, query, operators))
  }

  private def planned(join: StoredState, layout: StateLayout): JoinState = {
    val ids = query.idsOf(join)
    // A partition that there was before keeps its id: until the turn it counts in both sets.
    val newIds =
      ids.map(old => Seq.tabulate(partitions)(i => old.lift(i).getOrElse(UUID.randomUUID.toString)))
    query.state(
      join,
      query.setOf(join, layout),
      StateSet(StateLayout.of(partitions, cutOff(join, layout)), newIds)
    )
  }

  /** An interrupted batch runs again, and a sink may have its rows already. So it must emit the same rows. Where
    * rows are emitted in steps, or negatives are sampled at a ratio, the partition decides which: each new one must have
    * rows of one old one only.
    */
  private def cutOff(join: StoredState, layout: StateLayout): Option[CutOffBatch] = {
    val batch = query.cutOffBatch(layout)
    batch
      .filter(partitions % _.partitions != 0)
      .filter(_ => join.releasesInSteps || isBalanced(join))
      .foreach(of => throw RescaleErrors.cutOff(checkpoint, begun, of.partitions))
    batch
  }

  private def isBalanced(join: StoredState): Boolean =
    query.state(join).manifests(conf).exists(_.balance.nonEmpty)

  private def layOut(join: StoredState, state: JoinState): Unit = {
    val directory = spark.directory(join.operator)
    val layouts = Seq(state.before.layout, state.after.layout)
    query.checkAlone()
    val before = layoutsNow(state)
    JoinCheckpoint.layOut(directory, conf, version, layouts)(_ => true): Unit
    // Another one has turned over meanwhile, and needs the directories that it has named.
    if (spark.partitions(begun) != named) {
      JoinCheckpoint.layOut(directory, conf, version, before)(_ == layouts): Unit
      throw query.inUse
    }
  }

  /** Another rescaling of the checkpoint has named directories of its own since. */
  private def isReplaced(state: JoinState): Boolean =
    layoutsNow(state) != Seq(state.before.layout, state.after.layout)

  /** It has begun before the turn. One that has begun since continues from the new directories, and names them. */
  private def isForgotten(state: JoinState): Boolean = !layoutsNow(state).contains(state.after.layout)

  private def layoutsNow(state: JoinState): Seq[StateLayout] =
    JoinCheckpoint.read(spark.directory(state.operator), conf, version - 1).layouts

  private def write(join: JoinState): Seq[Manifest] = {
    val manifests = rewrite.manifests(join, rewrite.split(join, new PartitionRoutes(dry = false)))
    checkSections(manifests)
    rewrite.write(join, manifests)
    manifests
  }

  /** The index of a synced join's right rows has numbers of 16 bits for their sections. */
  private def checkSections(manifests: Seq[Manifest]): Unit = {
    val most = manifests.map(_.runs.flatMap(_.sections).count(_.kind == StoreKind.HeldRight)).max
    if (most > Rescale.MostSections)
      throw RescaleErrors.tooMany(s"$most sections of right rows in a partition")
  }

  private def turnOver(states: Seq[JoinState], others: Option[SparkOperators]): Unit = {
    val ids = states.flatMap { state =>
      // As many as the greater number: until the turn the query needs the old ones.
      state.after.ids.map(after =>
        state.operator -> (after ++ state.before.ids.get.drop(after.size)).map(Seq(_))
      )
    }.toMap
    others match {
      case Some(operators) => turnOver(states, operators, ids)
      case None =>
        checkTurn(states)
        if (ids.nonEmpty) spark.setCheckpointIds(completed, ids)
        spark.setPartitions(begun, partitions)
        // Another one has named its directories between the last look and the turn: nobody would find those of this one.
        if (states.exists(isForgotten)) {
          if (spark.partitions(begun) == partitions) spark.setPartitions(begun, named)
          throw query.inUse
        }
    }
  }

  /** With state of Spark's operators the turn is a file that describes the work. */
  private def turnOver(
      states: Seq[JoinState],
      operators: SparkOperators,
      ids: Map[Long, Seq[Seq[String]]]
  ): Unit = {
    val turn =
      try
        OnFailure(operators.delete()) {
          val staged = operators.stage(partitions, ids)
          checkTurn(states)
          staged
        }
      catch {
        // Another command has deleted the files of this one.
        case e: Throwable => throw (if (query.isNewestCommand) e else query.inUse)
      }
    RepartitionTurn.write(query.root, conf, turn)
    if (states.exists(isForgotten)) {
      RepartitionTurn.withdraw(query.root, conf)
      throw query.inUse
    }
    RepartitionTurn.finish(query.root, conf)
  }

  private def checkTurn(states: Seq[JoinState]): Unit = {
    query.checkUnchanged()
    if (states.exists(isReplaced)) throw query.inUse
    query.checkAlone()
  }
}

private[rescale] object Rescale {

  /** Each is a directory with a file. A typing error in the number would keep the command busy for hours. */
  private val MostPartitions = 100000L

  /** Half of the capacity of the index, because later batches add some. */
  private val MostSections = 1 << 15
}

/** The state of Spark's own operators in a query that is rescaled. Spark writes it for the new number into a
  * checkpoint of its own, which has only these operators, because Spark's rewriter takes all operators that it finds.
  * The query's own files don't change before the [[RepartitionTurn]].
  *
  * @param operators at least one
  */
private[rescale] final class SparkOperators(
    session: SparkSession,
    checkpoint: String,
    query: StoppedQuery,
    operators: Seq[CheckpointOperator]
) {
  import query.{completed, conf, root, spark}

  private val repartition = new SparkRepartition(session, root, completed, query.hasIds)
  private val staged = RepartitionTurn.stagedAt(root, UUID.randomUUID.toString)
  private val files = DurableFiles.in(root, conf)

  /** Refuses operators that can't be rescaled. */
  def check(): Unit = {
    val obstacles = operators.flatMap(of => repartition.obstacle(of).map(why => s"${of.name} ($why)"))
    if (obstacles.nonEmpty) throw RescaleErrors.unsupported(checkpoint, obstacles)
    if (query.readsAgain || query.wasTried)
      throw RescaleErrors.open(checkpoint, query.begun, operators.map(_.name))
  }

  /** Writes the new state.
    *
    * @param ids of the other operators, in Spark's checkpoint format 2
    * @return the turn that switches the query to it
    */
  def stage(partitions: Int, ids: Map[Long, Seq[Seq[String]]]): RepartitionTurn = {
    RepartitionTurn.deleteStaged(root, conf)
    operators.foreach(operator => copyMetadata(spark.directory(operator.id)))
    val entry = s"offsets/$completed"
    DurableFiles.copy(new Path(root, entry), new Path(staged, entry), conf, s"batch $completed")
    new SparkCheckpoint(staged, conf).setPartitions(completed, partitions)
    val written = repartition.write(staged, partitions).getOrElse(Map.empty)
    RepartitionTurn(
      completed,
      spark.emptyBatch(completed, partitions),
      spark.entryText(completed + 1),
      partitions,
      staged.getName,
      RepartitionTurn.filesOf(staged, conf),
      operators.map(_.id),
      (ids ++ written).map { case (operator, of) => operator.toString -> of }
    )
  }

  /** Deletes the files of [[stage]], before the turn. */
  def delete(): Unit = files.delete(staged)

  /** Spark keeps an operator's metadata beside its partitions, and schemas in the first one. */
  private def copyMetadata(directory: Path): Unit =
    files.list(directory).foreach { status =>
      val name = status.getPath.getName
      if (name.startsWith("_")) copy(status.getPath)
      else if (status.isDirectory && name == "0") copySchemas(status.getPath)
    }

  private def copySchemas(directory: Path): Unit =
    files.list(directory).filter(_.isDirectory).foreach { status =>
      if (status.getPath.getName.startsWith("_")) copy(status.getPath) else copySchemas(status.getPath)
    }

  private def copy(directory: Path): Unit =
    DurableFiles.copyAll(directory, new Path(staged, below(directory)), conf, s"batch $completed")

  private def below(path: Path): String = qualified(root).toUri.relativize(qualified(path).toUri).getPath

  private def qualified(path: Path): Path = path.getFileSystem(conf).makeQualified(path)
}

/** A new checkpoint with another number of state partitions. The old one stays as it is.
  *
  * {{{
  *   <to>-import-<unique>/checkpoint   a copy, by a Spark job, which is rescaled there
  *   <to>                              gets its files: [[NewCheckpoint]]
  * }}}
  */
private[tailrace] final class RescaledCopy(
    session: SparkSession,
    checkpoint: String,
    to: String,
    partitions: Int
) {
  private val query = new StoppedQuery(session, checkpoint, "a copy", RescaleErrors.inUse)
  import query.{conf, root}

  /** @param dryRun only reads and counts the rows */
  def run(dryRun: Boolean): RescaleReport = {
    val target = new NewCheckpoint(to, conf)
    target.checkFree()
    val original = new Rescale(session, checkpoint, partitions, dryRun)
    if (dryRun) original.run()
    else {
      original.check()
      checkPlaces()
      var report: Option[RescaleReport] = None
      target.make {
        val made = new Path(target.work, "checkpoint")
        copy(made)
        // A query that ran meanwhile may have deleted files, or begun a batch.
        query.checkUnchanged()
        report = Some(new Rescale(session, made.toString, partitions).run())
        made
      }
      report.get
    }
  }

  /** Spark notes for these where the files with the schemas of their state are, as whole paths. */
  private def checkPlaces(): Unit = {
    val bound = query.operators._2.map(_.name).filter(_.startsWith("transformWithState"))
    if (bound.nonEmpty)
      throw RescaleErrors.unsupported(checkpoint, bound.map(name => s"$name (its schemas have whole paths)"))
  }

  private def copy(made: Path): Unit = {
    val files = filesBelow(root, "")
    val (from, into) = (root.toString, made.toString)
    val tasks = Math.min(files.size, RescaledCopy.TasksOfCore * session.sparkContext.defaultParallelism)
    StateRewrite.job(session, conf, s"copy $checkpoint", files, tasks) { (path, readable) =>
      DurableFiles.copy(new Path(from, path), new Path(into, path), readable, "the copy")
    }: Unit
  }

  private def filesBelow(directory: Path, below: String): Seq[String] =
    DurableFiles.in(root, conf).list(directory).flatMap { status =>
      val path = below + status.getPath.getName
      // Claims and turns are those of commands on the old checkpoint.
      if (path == "tailrace-rescale") Nil
      else if (status.isDirectory) filesBelow(status.getPath, s"$path/")
      else Seq(path)
    }
}

private object RescaledCopy {
  private val TasksOfCore = 4
}
