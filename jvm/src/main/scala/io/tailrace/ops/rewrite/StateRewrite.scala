package io.tailrace.ops.rewrite

import java.io.File

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace.{SparkSession, SparkState}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.state._

/** Writes the state of joins anew: a Spark job for the rows, then the manifests. Nothing names the new state yet.
  *
  * @param what is done, for Spark's UI: "rescale"
  */
private[tailrace] final class StateRewrite(
    session: SparkSession,
    checkpoint: String,
    conf: Configuration,
    what: String
) {

  /** Writes the runs.
    *
    * @param isWhole whether a partition's rows have to go through one task
    */
  def split(join: JoinState, routes: RowRoutes, isWhole: Boolean = false): Seq[SplitResult] = {
    val number = join.before.layout.partitions
    // A few large partitions shouldn't leave cores idle. There may be fewer runs than that.
    val most = Math.min(StateRewrite.MostSlices, 2 * session.sparkContext.defaultParallelism / number)
    val slices = if (isWhole) 1 else Math.max(1, most)
    val all = for (partition <- 0 until number; slice <- 0 until slices) yield Slice(partition, slice, slices)
    val description = s"$what operator ${join.operator} of $checkpoint"
    StateRewrite.job(session, conf, description, all, all.size) { (slice, readable) =>
      new PartitionRewrite(join, slice, routes, readable).run()
    }
  }

  /** The manifests of the new partitions, in their order. */
  def manifests(join: JoinState, results: Seq[SplitResult]): Seq[Manifest] = {
    val byPartition = results.groupBy(_.partition)
    val parts = results.flatMap(_.parts).groupBy(_.target)
    (0 until join.after.layout.partitions).map { target =>
      val facts = new StateFacts(join.sourcesOf(target).map(byPartition(_).head.manifest))
      Manifest(
        join.version,
        facts.expiredThrough,
        // Neighbours of one level are compacted together.
        parts.getOrElse(target, Nil).sortBy(part => (-part.run.level, part.number)).map(_.run),
        facts.operatorTime,
        facts.lateRows,
        facts.amendsAfter,
        facts.balance
      )
    }
  }

  /** Writes the manifests of the new partitions. */
  def write(join: JoinState, manifests: Seq[Manifest]): Unit =
    SparkState.sideBySide(s"tailrace-$what", JoinState.Threads, manifests.zipWithIndex) {
      case (manifest, target) =>
        val files = join.files(join.after, target, conf)
        files.commit(files.newManifest(join.version, join.after.id(target)), manifest, Map.empty): Unit
    }
}

private[tailrace] object StateRewrite {

  /** Tasks per previous partition: as many runs as compaction leaves of a level. */
  private val MostSlices = 32

  /** Rows that the manifests name and that count. */
  def rows(manifests: Seq[Manifest]): Long =
    manifests.flatMap(_.runs).flatMap(_.sections).map(_.liveRows).sum

  def bytes(manifests: Seq[Manifest]): Long = manifests.flatMap(_.runs).map(_.length).sum

  /** Runs a Spark job over items.
    *
    * @param what  is done, for Spark's UI
    * @param tasks their number
    * @param work  is given an item, and the settings for files
    */
  def job[A: ClassTag, B: ClassTag](
      session: SparkSession,
      conf: Configuration,
      what: String,
      items: Seq[A],
      tasks: Int
  )(work: (A, Configuration) => B): Seq[B] = {
    val context = session.sparkContext
    val hadoopConf = context.broadcast(new SerializableConfiguration(conf))
    context.setJobDescription(what)
    try context.parallelize(items, tasks).map(work(_, hadoopConf.value.value)).collect().toSeq
    finally {
      context.setJobDescription(null)
      hadoopConf.destroy()
    }
  }
}

/** Writes some runs of a partition anew, in a task of a Spark job. It reads each row once, and writes it once. A
  * task that is lost or runs twice leaves files that no manifest names.
  */
private[rewrite] final class PartitionRewrite(
    join: JoinState,
    slice: Slice,
    routes: RowRoutes,
    conf: Configuration
) {
  import join.{after, version}
  import slice.partition

  def run(): SplitResult = {
    val opened = join.open(partition, conf)
    try split(opened)
    finally opened.close()
  }

  private def split(opened: OutsideState): SplitResult = {
    import opened.state
    val parts = Seq.newBuilder[SplitPart]
    val route = routes.of(join, partition)
    val rows = new PartitionSplit(state, route, join.bucketWidth, () => new SplitRuns(() => opened.newFile()))
    rows.split(slice)((number, runs) =>
      runs.foreach(parts += upload(_, state.manifest.runs(number).level, number))
    )
    SplitResult(partition, state.manifest.copy(runs = Nil), parts.result(), route.counts)
  }

  private def upload(split: SplitRun, level: Int, number: Int): SplitPart = {
    val files = join.files(after, split.target, conf)
    val run = files.upload(split.written, StateFileNames.run(version))
    split.written.file.delete()
    val sections = split.sections.map(_.copy(schema = join.shapes.newest))
    SplitPart(split.target, run.copy(sections = sections, level = level), number)
  }
}

/** Gives the rows of one partition's version that count ([[LivingRows]]) to their new partitions. Each run is split on its
  * own, so that levels and order stay: nothing is sorted again.
  *
  * {{{
  *   6-a.run   left 12:00 | right 12:00        5-x.run of partition 1   left 12:00 | right 12:00
  *             rows of keys a b c d    ──>     5-y.run of partition 5   left 12:00
  * }}}
  *
  * The matches of eager matching have no key of their own: they go where their left rows go, in a run of their own.
  *
  * @param bucketWidth of the sections of matches, in microseconds
  */
private[rewrite] final class PartitionSplit(
    state: LoadedState,
    route: RowRoute,
    bucketWidth: Long,
    newRuns: () => SplitRuns
) {
  import StoreKind.JoinedIndicator

  private val living = LivingRows.of(state)

  private def sectionsOf(kind: StoreKind): Seq[LiveSection] = state.sections.filter(_.section.kind == kind)

  /** Splits the runs of a slice. All matches belong to the first one, because they need all left rows.
    *
    * @param take is called with the number of each run, and what it has become
    */
  def split(slice: Slice)(take: (Int, Seq[SplitRun]) => Unit): Unit = {
    route.begin(state)
    val numbered = state.runs.zipWithIndex.filter(_._2 % slice.of == slice.number)
    def sections(run: LocalRun) = state.sections.filter { live =>
      (live.local eq run) && live.section.kind.hasRows && live.section.kind != JoinedIndicator
    }
    LiveSection.prepare(numbered.flatMap { case (run, _) => sections(run) })
    def into(number: Int)(write: SplitRuns => Unit): Unit = {
      val runs = newRuns()
      try {
        write(runs)
        take(number, runs.finish())
      } finally runs.close()
    }
    numbered.foreach { case (run, number) => into(number)(splitRun(sections(run), _)) }
    val matches = if (slice.number == 0) sectionsOf(JoinedIndicator) else Nil
    matches.headOption.foreach(first => into(state.runs.indexOf(first.local))(splitMatches))
  }

  private def splitRun(parts: Seq[LiveSection], runs: SplitRuns): Unit =
    parts.sortBy(live => (live.section.kind.id, live.section.bucket)).foreach { live =>
      val section = live.section
      living.foreachRow(live) { row =>
        append(runs, route.target(live, row, row), section.kind, section.bucket, row)
      }
    }

  private def splitMatches(runs: SplitRuns): Unit = {
    val matches = new MatchesOfLefts(state)
    try
      while (!matches.isEmpty) {
        val joined = matches.joined
        val to = route.target(matches.sections.head, joined, matches.left)
        append(runs, to, JoinedIndicator, Math.floorDiv(joined.time, bucketWidth), joined)
        matches.drop()
      }
    finally matches.close()
  }

  private def append(runs: SplitRuns, to: Int, kind: StoreKind, bucket: Long, row: RunCursor): Unit =
    if (to != RowRoute.Nowhere) {
      val seq = route.seq(row.seq)
      // In the cursor's page, which nobody else reads.
      if (seq != row.seq) RowLayout.writeSeq(row.base, row.at, seq)
      // A match names its right row by that one's number, which changes too. Their order stays.
      if (kind == JoinedIndicator)
        MatchKey.writeRightSeq(row.base, row.at, route.seq(MatchKey.rightSeq(row.base, row.at)))
      runs.append(to, kind, bucket, row.base, row.at)
    }
}

/** A run of a new partition, in a local file. */
private[tailrace] final case class SplitRun(target: Int, written: WrittenFile, sections: Seq[Section])

/** Writes rows, in the order of a run's sections, into a run for each new partition that gets some of them.
  *
  * @param newFile makes an empty local file
  */
private[tailrace] final class SplitRuns(newFile: () => File) extends AutoCloseable {
  private final class Part {
    val file: File = newFile()
    val writer = new RunWriter(file)
    var kind: StoreKind = _
    var bucket = 0L
  }

  private val parts = mutable.LongMap.empty[Part]

  /** Adds a row. It must not be before the last one of its target. */
  def append(target: Int, kind: StoreKind, bucket: Long, base: AnyRef, at: Long): Unit = {
    val part = parts.getOrElseUpdate(target.toLong, new Part)
    if (part.kind != kind || part.bucket != bucket) {
      if (part.kind != null) part.writer.end()
      part.writer.begin(kind, bucket)
      part.kind = kind
      part.bucket = bucket
    }
    part.writer.append(base, at)
  }

  /** Completes the files. The caller deletes them. */
  def finish(): Seq[SplitRun] = parts.toSeq.map { case (target, part) =>
    part.writer.end()
    part.writer.finish()
    part.writer.close()
    SplitRun(target.toInt, WrittenFile.ofRun(part.file), part.writer.sections)
  }

  override def close(): Unit = parts.values.foreach(_.writer.close())
}

/** Where the rows of a partition go when its state is written anew. One is of one task. */
private[tailrace] trait RowRoute {

  /** Reads the partition's state, before the first row is routed. */
  def begin(state: LoadedState): Unit = ()

  /** @param live  the section that the row is in
    * @param keyed the row itself; for a match, which has no key of its own, its left row
    * @return a partition, or [[RowRoute.Nowhere]]
    */
  def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int

  /** The row's sequence number in its new partition. */
  def seq(of: Long): Long = of

  /** The counts of the route, by names of its own. */
  def counts: Map[String, Long] = Map.empty
}

private[tailrace] object RowRoute {

  /** The row is left out. */
  val Nowhere: Int = -1
}

/** Makes the route of a partition in a task. */
private[tailrace] trait RowRoutes extends Serializable {
  def of(join: JoinState, partition: Int): RowRoute
}

/** The matches that eager matching has found for left rows that wait, each with its left row. Both are in the order of
  * the left row's time and sequence number:
  *
  * {{{
  *   left-time-sorted   12:00 #1   12:01 #4   12:02 #2
  *   joined-indicator   12:00 #1   12:00 #1   12:02 #2      two matches of the first, one of the third
  * }}}
  */
private[tailrace] final class MatchesOfLefts(state: LoadedState) extends AutoCloseable {
  import StoreKind.{JoinedIndicator, LeftTimeSorted}

  /** The sections with matches. */
  val sections: Seq[LiveSection] = sectionsOf(JoinedIndicator)

  private val lefts = merged(LeftTimeSorted)
  private val joins =
    try merged(JoinedIndicator)
    catch {
      case e: Throwable =>
        lefts.close()
        throw e
    }

  private def sectionsOf(kind: StoreKind): Seq[LiveSection] = state.sections.filter(_.section.kind == kind)

  private def merged(kind: StoreKind): MergedSections =
    new MergedSections(sectionsOf(kind), RunCursor.inOrder(kind.order), state.manifest.expiry.through(kind))

  def isEmpty: Boolean = joins.isEmpty

  /** The match, until [[drop]]. Not if there is none. */
  def joined: RunCursor = joins.head

  /** Its left row. */
  def left: RunCursor = {
    while (!lefts.isEmpty && order < 0) lefts.drop()
    if (lefts.isEmpty || order > 0)
      throw sections.head.local.corrupt("it has a match without its left row")
    lefts.head
  }

  private def order: Int = lefts.head.compareTimeAndSeq(joined.time, joined.seq)

  /** Goes on to the next match. */
  def drop(): Unit = joins.drop()

  override def close(): Unit =
    try joins.close()
    finally lefts.close()
}
