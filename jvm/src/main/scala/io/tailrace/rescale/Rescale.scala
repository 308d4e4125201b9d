package io.tailrace.rescale

import java.util.UUID

import scala.collection.immutable.ArraySeq

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkSession, SparkState}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{Arguments, Errors}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.state.{CutOffBatch, Manifest, StateLayout, StoreKind}

/** What a rescaling has done.
  *
  * @param before number of state partitions
  * @param after  the same
  * @param rows   in the state, which count
  * @param bytes  of the new partitions' files
  */
final case class RescaleReport(before: Int, after: Int, rows: Long, bytes: Long)

/** Gives the joins of a checkpoint another number of state partitions. The query must not run meanwhile.
  *
  * {{{
  *   1  tailrace-join.json names directories for both numbers
  *   2  a Spark job        splits each partition: its rows go to the partitions of their keys, in new files
  *   3  manifests          of the new partitions, of the same version
  *   4  commits/<last>     has ids for all of them, in Spark's checkpoint format 2
  *   5  offsets/<last>     has the new number, by one write. Until here the query goes on with the old one
  *   later the query    deletes the old state, when it has completed a batch: [[io.tailrace.join.FormerLayouts]]
  * }}}
  *
  * Spark takes the number from the newest entry of its offset log, which may be that of a batch that hasn't
  * completed. So no batch comes in between, and the logs of other operators stay as they are.
  *
  * An example, 4 to 16 partitions, after batch 6: version 7 of partition 1 has become version 7 of the
  * partitions 1, 5, 9 and 13. Batch 7, which was cut off at 12:30, runs with 16 tasks at 12:40.
  */
private[tailrace] final class Rescale(session: SparkSession, checkpoint: String, partitions: Int) {
  new Arguments("tailrace.rescale").number("partitions", partitions.toLong, least = 1, Rescale.MostPartitions)
  private val root = new Path(checkpoint)
  private val conf = session.sessionState.newHadoopConf()
  private val spark = SparkCheckpoint.readable(checkpoint)(new SparkCheckpoint(root, conf))

  private val completed = SparkCheckpoint.readable(checkpoint)(spark.completedBatches(checkpoint).last)
  private val begun = newest
  // The number that the query would start with.
  private val named = spark.partitions(begun)
  private val version = completed + 1
  private lazy val claim = new Claim(root, conf, partitions)
  private lazy val ids = spark.commit(completed).checkpointIds

  /** @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_RESCALE_IN_USE if a query runs with the checkpoint,
    *   or another rescaling
    */
  def run(): RescaleReport =
    Claim.alone(root, conf)(runAlone()).getOrElse(throw RescaleErrors.inUse(checkpoint))

  /** Rescalings of other processes may run beside it. */
  private[rescale] def runAlone(): RescaleReport = {
    if (SparkCheckpoints.isInUse(session, root, conf)) throw RescaleErrors.inUse(checkpoint)
    val joins = this.joins
    // What is refused above has changed nothing.
    checkAlone()
    val layouts = joins.map(join => join -> holding(join))
    val before = layouts.head._2.partitions
    val report =
      if (before == partitions) {
        if (named != before) spark.setPartitions(begun, before)
        RescaleReport(before, partitions, 0, 0)
      } else {
        val states = layouts.map { case (join, layout) => planned(join, layout) }
        val results = joins.zip(states).map { case (join, state) =>
          layOut(join, state)
          val next = nextVersion(state)
          val result = write(state, split(state))
          next.foreach(state => write(state, split(state)))
          result
        }
        turnOver(states)
        RescaleReport(before, partitions, results.map(_._1).sum, results.map(_._2).sum)
      }
    // A newer one reads what is there, and says its own number then.
    if (claim.isNewest) tellReaders(joins.filter(_.bound.layouts.nonEmpty || report.before != partitions))
    report
  }

  /** Spark's readers ask these. A rescaling that was cut off behind the turn has left them as they were. */
  private def tellReaders(joins: Seq[StoredState]): Unit = {
    if (spark.partitions(completed) != partitions) spark.setPartitions(completed, partitions)
    joins.foreach(join => spark.setMetadata(join.operator, partitions))
  }

  /** Another rescaling may have begun since, or turned over since this one has read the logs. */
  private def checkAlone(): Unit =
    if (!claim.isNewest || spark.partitions(begun) != named) throw RescaleErrors.inUse(checkpoint)

  /** The batch that the query begins with, or the one before it. */
  private def newest: Long = {
    val last = spark.begunBatches.lastOption.getOrElse(throw Errors.checkpointNotFound(checkpoint))
    if (last != completed && last != completed + 1) throw RescaleErrors.inUse(checkpoint)
    last
  }

  private def joins: Seq[StoredState] = {
    val operators = spark.operators(completed)
    val (own, others) = operators.partition(operator => JoinCheckpoint.operatorNames(operator.name))
    if (own.isEmpty) throw Errors.checkpointWithoutJoin(checkpoint, others.map(_.name))
    if (others.nonEmpty) throw RescaleErrors.unsupported(checkpoint, others.map(_.name))
    own.map(StoredState.read(spark, _, conf, version))
  }

  /** Where a join's state is. If a query ran while its number of partitions changed, it may have completed the
    * newest batch with the old number, and the offset log names the new one.
    */
  private def holding(join: StoredState): StateLayout = {
    val layout = join.bound.layout(named, spark.directory(join.operator))
    def isWhole(of: StateLayout) =
      idsOf(join).forall(_.size >= of.partitions) && isWritten(join.operator, of, version)
    if (join.bound.layouts.size < 2 || isWhole(layout)) layout
    else join.bound.layouts.find(isWhole).getOrElse(layout)
  }

  /** Whether all partitions have a version. */
  private def isWritten(operator: Long, layout: StateLayout, version: Long): Boolean =
    (0 until layout.partitions).forall { partition =>
      JoinState.files(spark.state, operator, layout, partition, conf).versions(version)
    }

  /** Of the version in each partition, in Spark's checkpoint format 2. */
  private def idsOf(join: StoredState): Option[Array[String]] =
    ids.flatMap(_.get(join.operator)).map(_.map(_.head))

  private def planned(join: StoredState, layout: StateLayout): JoinState = {
    val ids = idsOf(join)
    // A partition that there was before keeps its id: until the turn it counts in both sets.
    val newIds =
      ids.map(old => Seq.tabulate(partitions)(i => old.lift(i).getOrElse(UUID.randomUUID.toString)))
    JoinState(
      spark.state.toString,
      join.operator,
      version,
      join.keys,
      join.bound.shapes,
      join.bucketWidth,
      StateSet(layout, ids.map(ArraySeq.unsafeWrapArray(_))),
      StateSet(StateLayout.of(partitions, cutOff(join, layout)), newIds)
    )
  }

  /** A batch that was cut off runs again, and a sink may have its rows already. So it must give the same ones.
    * Where rows leave in steps, the partition decides which: each new one must have rows of one old one only.
    */
  private def cutOff(join: StoredState, layout: StateLayout): Option[CutOffBatch] =
    Option.when(begun != completed) {
      val before = layout.cutOff.filter(_.batch == begun).fold(layout.partitions)(_.partitions)
      if (join.releasesInSteps && partitions % before != 0)
        throw RescaleErrors.cutOff(checkpoint, begun, before)
      CutOffBatch(begun, before)
    }

  /** The version that a batch which was cut off has made, if it is complete. A sink that has the batch already may
    * not ask for its rows, and then no task makes the version again. In checkpoint format 2 Spark refuses that.
    */
  private def nextVersion(join: JoinState): Option[JoinState] = {
    val next = join.copy(version = begun + 1)
    Option.when(
      begun != completed && join.before.ids.isEmpty &&
        isWritten(join.operator, join.before.layout, next.version)
    )(next)
  }

  private def layOut(join: StoredState, state: JoinState): Unit = {
    val directory = spark.directory(join.operator)
    val layouts = Seq(state.before.layout, state.after.layout)
    checkAlone()
    val written = JoinCheckpoint.read(directory, conf, version - 1)
    JoinCheckpoint.write(directory, conf, join.bound.copy(layouts = layouts))
    // Another one has turned over meanwhile, and needs the directories that it has named.
    if (spark.partitions(begun) != named) {
      if (!isReplaced(state)) JoinCheckpoint.write(directory, conf, written): Unit
      throw RescaleErrors.inUse(checkpoint)
    }
  }

  /** Another rescaling of the checkpoint has named directories of its own since. */
  private def isReplaced(state: JoinState): Boolean = {
    val directory = spark.directory(state.operator)
    JoinCheckpoint.read(directory, conf, version - 1).layouts != Seq(state.before.layout, state.after.layout)
  }

  private def split(join: JoinState): Seq[SplitResult] = {
    val context = session.sparkContext
    val number = join.before.layout.partitions
    // A few large partitions shouldn't leave cores idle. There may be fewer runs than that.
    val slices = Math.max(1, Math.min(Rescale.MostSlices, 2 * context.defaultParallelism / number))
    val all = for (partition <- 0 until number; slice <- 0 until slices) yield Slice(partition, slice, slices)
    val hadoopConf = context.broadcast(new SerializableConfiguration(conf))
    context.setJobDescription(s"rescale operator ${join.operator} of $checkpoint")
    try
      context
        .parallelize(all, all.size)
        .map(slice => new PartitionSplit(join, slice, hadoopConf.value.value).run())
        .collect()
        .toSeq
    finally {
      context.setJobDescription(null)
      hadoopConf.destroy()
    }
  }

  /** Writes the manifests. @return rows and bytes */
  private def write(join: JoinState, results: Seq[SplitResult]): (Long, Long) = {
    val (before, after) = (join.before.layout.partitions, join.after.layout.partitions)
    val common = RowTargets.common(before, after)
    val byResidue = results.groupBy(_.partition % common)
    val parts = results.flatMap(_.parts).groupBy(_.target)
    val manifests = (0 until after).map { target =>
      val sources = byResidue(target % common)
      target -> Manifest(
        join.version,
        sources.map(_.expiredThrough).min,
        // Neighbours of one level are compacted together.
        parts.getOrElse(target, Nil).sortBy(part => (-part.run.level, part.number)).map(_.run),
        sources.map(_.operatorTime).min
      )
    }
    checkSections(manifests.map(_._2))
    SparkState.sideBySide("tailrace-rescale", Rescale.Threads, manifests) { case (target, manifest) =>
      val files = join.files(join.after, target, conf)
      files.commit(files.newManifest(join.version, join.after.id(target)), manifest, Map.empty): Unit
    }
    val all = manifests.flatMap(_._2.runs)
    (all.flatMap(_.sections).map(_.liveRows).sum, all.map(_.length).sum)
  }

  /** The index of a synced join's right rows has numbers of 16 bits for their sections. */
  private def checkSections(manifests: Seq[Manifest]): Unit = {
    val most = manifests.map(_.runs.flatMap(_.sections).count(_.kind == StoreKind.HeldRight)).max
    if (most > Rescale.MostSections)
      throw RescaleErrors.tooMany(s"$most sections of right rows in a partition")
  }

  private def turnOver(states: Seq[JoinState]): Unit = {
    // A query of another driver.
    val isOther = spark.completedBatches(checkpoint).last != completed || newest != begun
    if (isOther || states.exists(isReplaced)) throw RescaleErrors.inUse(checkpoint)
    checkAlone()
    val ids = states.flatMap { state =>
      // As many as the greater number: until the turn the query needs those of before.
      state.after.ids.map(after => state.operator -> (after ++ state.before.ids.get.drop(after.size)))
    }
    if (ids.nonEmpty) spark.setCheckpointIds(completed, ids.toMap)
    spark.setPartitions(begun, partitions)
    // Another one has named its directories between the last look and the turn: nobody would find those of this one.
    if (states.exists(isReplaced)) {
      if (spark.partitions(begun) == partitions) spark.setPartitions(begun, named)
      throw RescaleErrors.inUse(checkpoint)
    }
  }
}

private[rescale] object Rescale {

  /** Each is a directory with a file. A typing error in the number would keep the command busy for hours. */
  private val MostPartitions = 100000L

  /** Manifests that are written side by side. */
  private val Threads = 32

  /** Tasks for a partition of before: as many runs as compaction leaves of a level. */
  private val MostSlices = 32

  /** Half of what the index has, because later batches add some. */
  private val MostSections = 1 << 15
}
