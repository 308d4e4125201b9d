package io.tailrace.ops.rewrite

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.collection.immutable.ArraySeq

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.tailrace.{CheckpointOperator, SparkCheckpoints, SparkSession}
import org.apache.spark.sql.types.DataType

import io.tailrace.checkpoint.{DurableFiles, RepartitionTurn, SparkCheckpoint}
import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{
  Errors,
  LiteralPath,
  TailraceAnalysisException,
  TailraceConf,
  TailraceStateException
}
import io.tailrace.join.{ColumnTexts, JoinCheckpoint}
import io.tailrace.state.{CutOffBatch, StateLayout}

/** The checkpoint of a query that doesn't run, as a command that changes it sees it: read once, at the beginning.
  * The command looks again before each step that can't be taken back.
  *
  * @param what    the command does, for the [[Claim]]
  * @param refusal see [[inUse]]
  */
private[tailrace] final class StoppedQuery(
    session: SparkSession,
    checkpoint: String,
    what: String,
    refusal: String => TailraceStateException = RewriteErrors.inUse
) {

  /** The error where the query runs, or another command changes the checkpoint. */
  def inUse: TailraceStateException = refusal(checkpoint)

  val root: Path = LiteralPath.of(checkpoint)
  val conf: Configuration = session.sessionState.newHadoopConf()
  // What a rescaling has decided, and hasn't done.
  SparkCheckpoint.readable(checkpoint)(RepartitionTurn.finish(root, conf))
  val spark: SparkCheckpoint = SparkCheckpoint.readable(checkpoint)(new SparkCheckpoint(root, conf))

  /** The newest batch that has completed. */
  val completed: Long = SparkCheckpoint.readable(checkpoint)(spark.completedBatches(checkpoint).last)

  /** The newest batch that has begun: the same, or the next one, which was cut off. */
  val begun: Long = newest

  /** The number of partitions that the query would start with. */
  val named: Int = spark.partitions(begun)

  /** The version of the state that the newest completed batch has made. */
  val version: Long = completed + 1

  def isCutOff: Boolean = begun != completed

  /** True if a batch was cut off that has input. A command may have begun one without. */
  def readsAgain: Boolean = isCutOff && {
    def readTo(batch: Long) = spark.begun(batch).map(_.sources)
    readTo(begun) != readTo(completed)
  }

  /** True if a batch was cut off that a sink may have rows of. */
  lazy val wasTried: Boolean = isCutOff && operators._1.exists { join =>
    JoinCheckpoint.hasVersion(spark.directory(join.id), conf, _ == begun + 1)
  }

  private lazy val claim = new Claim(root, conf, what)
  private lazy val ids = spark.commit(completed).checkpointIds

  /** True if the checkpoint is of Spark's format 2. */
  def hasIds: Boolean = ids.nonEmpty

  /** Runs a command, unless another one of this JVM changes the checkpoint. */
  def alone[T](command: => T): T = Claim.alone(root, conf)(command).getOrElse(throw inUse)

  /** Refuses a query of this JVM that runs with the checkpoint. */
  def checkStopped(): Unit = if (SparkCheckpoints.isInUse(session, root, conf)) throw inUse

  /** True if no other command has begun since. With the first call this one begins. */
  def isNewestCommand: Boolean = claim.isNewest

  /** Another command may have begun since, or turned over since this one has read the logs. */
  def checkAlone(): Unit =
    if (!claim.isNewest || spark.partitions(begun) != named || RepartitionTurn.find(root, conf).nonEmpty)
      throw inUse

  /** A query of another driver may have gone on since. */
  def checkUnchanged(): Unit =
    if (spark.completedBatches(checkpoint).last != completed || newest != begun) throw inUse

  private def newest: Long = {
    val last = spark.begunBatches.lastOption.getOrElse(throw Errors.checkpointNotFound(checkpoint))
    if (last != completed && last != completed + 1) throw inUse
    last
  }

  /** The operators with state: joins of ours, and others. */
  lazy val operators: (Seq[CheckpointOperator], Seq[CheckpointOperator]) = {
    val (own, others) =
      spark.operators(completed).partition(operator => JoinCheckpoint.operatorNames(operator.name))
    if (own.isEmpty) throw Errors.checkpointWithoutJoin(checkpoint, others.map(_.name))
    (own, others)
  }

  def stored(join: CheckpointOperator): StoredState = StoredState.read(spark, join, conf, version)

  /** A join's state, from one set of partitions into another. */
  def state(join: StoredState, before: StateSet, after: StateSet): JoinState = JoinState(
    spark.state.toString,
    join.operator,
    version,
    join.keys,
    join.bound.shapes,
    join.bucketWidth,
    before,
    after
  )

  /** A join's state as it is. */
  def state(join: StoredState): JoinState = {
    val set = setOf(join, holding(join))
    state(join, set, set)
  }

  /** The partitions of a join in a layout, as they are. */
  def setOf(join: StoredState, layout: StateLayout): StateSet =
    StateSet(layout, idsOf(join).map(ArraySeq.unsafeWrapArray(_)))

  /** Where a join's state is. If a query ran while its number of partitions changed, it may have completed the
    * newest batch with the old number, and the offset log names the new one. Of rescalings that died beside each
    * other, the offset log may name a number that has no state.
    */
  def holding(join: StoredState): StateLayout = {
    def isWhole(of: StateLayout) =
      idsOf(join).forall(_.size >= of.partitions) && isWritten(join.operator, of, version)
    val layout = join.bound.findLayout(named)
    layout
      .filter(of => join.bound.layouts.size < 2 || isWhole(of))
      .orElse(join.bound.layouts.find(isWhole))
      .orElse(layout)
      .getOrElse(join.bound.layout(named, spark.directory(join.operator)))
  }

  /** True if all partitions have a version. */
  private def isWritten(operator: Long, layout: StateLayout, version: Long): Boolean =
    (0 until layout.partitions).forall { partition =>
      JoinState.files(spark.state, operator, layout, partition, conf).versions(version)
    }

  /** The ids of the version in each partition, in Spark's checkpoint format 2. */
  def idsOf(join: StoredState): Option[Array[String]] =
    ids.flatMap(_.get(join.operator)).map(_.map(_.head))

  /** The batch that was cut off, and the number of partitions that decides which rows it gives. */
  def cutOffBatch(layout: StateLayout): Option[CutOffBatch] =
    Option.when(readsAgain || wasTried) {
      CutOffBatch(begun, layout.cutOff.filter(_.batch == begun).fold(layout.partitions)(_.partitions))
    }

  /** The version that a batch which was cut off has made, if it is complete. A sink that has the batch already may
    * not ask for its rows, and then no task makes the version again. In checkpoint format 2 Spark refuses that.
    */
  def nextVersion(join: JoinState): Option[JoinState] = {
    val next = join.copy(version = begun + 1)
    Option.when(
      isCutOff && join.before.ids.isEmpty && isWritten(join.operator, join.before.layout, next.version)
    )(next)
  }
}

/** Which of several commands may turn a checkpoint over: the one that has begun last. Each makes the next
  * number its own, by a file that nobody can make twice. Nobody has to find out whether the one before has died.
  *
  * {{{
  *   12:00  tailrace-rescale/1   a rescaling, which is killed at 12:01
  *   12:05  tailrace-rescale/2   another one
  *   12:06  tailrace-rescale/3   an erasure, of another process: the second is refused at its next look
  * }}}
  *
  * The newest file stays, so that no number comes again.
  *
  * @param what the command does, for people who look into the file: "a rescaling to 4 state partitions"
  */
private[tailrace] final class Claim(checkpoint: Path, conf: Configuration, what: String) {
  private val directory = new Path(checkpoint, "tailrace-rescale")
  private val files = DurableFiles.in(directory, conf)
  private val own = take(all)
  files.deleteAll(all.filter(_ < own).map(path))

  private def all: Seq[Long] = files.names(directory).flatMap(_.toLongOption)

  private def path(number: Long): Path = new Path(directory, number.toString)

  @annotation.tailrec
  private def take(before: Seq[Long]): Long = {
    val next = before.maxOption.getOrElse(0L) + 1
    val isOwn =
      try {
        files.create(path(next))(_.write(s"$what\n".getBytes(UTF_8)))
        true
      } catch { case _: FileAlreadyExistsException => false }
    if (isOwn) next else take(next +: all)
  }

  def isNewest: Boolean = all.maxOption.contains(own)
}

private[tailrace] object Claim {
  private val inThisJvm = ConcurrentHashMap.newKeySet[Path]()

  /** Runs `body`, unless another command of this JVM changes the checkpoint. @return none: it does */
  def alone[T](checkpoint: Path, conf: Configuration)(body: => T): Option[T] = {
    val path = checkpoint.getFileSystem(conf).makeQualified(checkpoint)
    Option.when(inThisJvm.add(path)) {
      try body
      finally inThisJvm.remove(path): Unit
    }
  }
}

/** A join in a checkpoint.
  *
  * @param bound       its settings, and where its state is
  * @param keys        types of the key columns
  * @param bucketWidth of a section, in microseconds
  */
private[tailrace] final case class StoredState(
    operator: Long,
    bound: JoinCheckpoint,
    keys: Seq[DataType],
    bucketWidth: Long
) {

  /** True if the number of a partition decides when its rows leave. */
  def releasesInSteps: Boolean = bound.settings.get(JoinCheckpoint.ReleaseEvery).exists(_ != "batch")
}

private[tailrace] object StoredState {

  /** @param version of the state */
  def read(
      spark: SparkCheckpoint,
      operator: CheckpointOperator,
      conf: Configuration,
      version: Long
  ): StoredState = {
    val directory = spark.directory(operator.id)
    val bound = JoinCheckpoint.read(directory, conf, version - 1)
    import bound.settings
    val keys = settings(JoinCheckpoint.LeftKeys)
    StoredState(
      operator.id,
      bound,
      // A wrong reading is noticed at the first key.
      ColumnTexts
        .read(keys)
        .getOrElse(throw RewriteErrors.keysUnreadable(directory.toString, keys))
        .map(_.dataType),
      Math.max(
        1000L * 1000,
        Seq(JoinCheckpoint.Before, JoinCheckpoint.After)
          .flatMap(JoinCheckpoint.duration(settings, _))
          .sum / TailraceConf.BucketsPerWindow.default
      )
    )
  }
}

/** The errors of any command that writes the state of a stopped query anew. */
object RewriteErrors {

  def inUse(checkpoint: String): TailraceStateException =
    stateError("TAILRACE_STATE_IN_USE", null, "path" -> checkpoint)

  /** @param keys their text in the checkpoint */
  def keysUnreadable(path: String, keys: String, cause: Throwable = null): TailraceStateException =
    stateError("TAILRACE_STATE_RESCALE_KEYS", cause, "path" -> path, "keys" -> keys)

  def destinationExists(path: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_EXISTS", "path" -> path)

  /** @param path of the new checkpoint, or of the export */
  def failed(path: String, cause: Throwable): TailraceStateException = {
    // The root cause is the file system's; the others are Spark's.
    val reason = Iterator.iterate(cause)(_.getCause).takeWhile(_ != null).toSeq.last
    stateError("TAILRACE_STATE_EXCHANGE_FAILED", cause, "path" -> path, "reason" -> reason)
  }
}
