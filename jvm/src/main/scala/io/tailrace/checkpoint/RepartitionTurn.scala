package io.tailrace.checkpoint

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, FileStatus, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkState}
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

/** A turn of a query with state of Spark's own operators to another number of partitions. Spark finds such state
  * under names that can't be chosen, so one write can't switch it over. The file describes the work, which is then
  * certain to be done: by the command, by the next start of the query, or by the next command.
  *
  * {{{
  *   tailrace-rescale/staged-<id>/state/1/0/7.zip     the new state: a checkpoint of its own
  *   tailrace-rescale/turn                            the turn
  *   offsets/7                                        an empty batch: a query that runs elsewhere can't continue
  *   state/1/0/7.zip                                  each file is moved to its place
  *   commits/6  offsets/6                             ids of the new state's stores, the number
  * }}}
  *
  * @param batch      that has made the state; it is the newest one that has completed
  * @param next       the entry of the empty batch after it
  * @param former     the entry of that batch now, if a command has begun it already, and no query has run it
  * @param partitions from now on
  * @param staged     name of the directory that has the new state
  * @param files      of Spark's operators
  * @param operators  Spark's
  * @param ids        by operator and partition, of all operators, in Spark's checkpoint format 2
  */
private[tailrace] final case class RepartitionTurn(
    batch: Long,
    next: String,
    former: Option[String],
    partitions: Int,
    staged: String,
    files: Seq[StagedStateFile],
    operators: Seq[Long],
    ids: Map[String, Seq[Seq[String]]]
)

/** @param path below `state` */
private[tailrace] final case class StagedStateFile(path: String, length: Long)

private[tailrace] object RepartitionTurn extends Logging {
  private val Format = 1
  private val checked =
    new CheckedText("tailrace-turn", "a turn to another number of partitions", Format, Format)
  private val Staged = "staged-"

  /** They wait for the file system. */
  private val Threads = 32

  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  private def directory(root: Path) = new Path(root, "tailrace-rescale")
  private def file(root: Path) = new Path(directory(root), "turn")

  /** A directory for a new state. */
  def stagedAt(root: Path, id: String): Path = new Path(directory(root), s"$Staged$id")

  def find(root: Path, conf: Configuration): Option[RepartitionTurn] = {
    val path = file(root)
    DurableFiles
      .in(root, conf)
      .find(path)
      .map(checked.decode(_, path.toString)(Serialization.read[RepartitionTurn]))
  }

  def write(root: Path, conf: Configuration, turn: RepartitionTurn): Unit =
    DurableFiles.in(root, conf).write(file(root))(_.write(checked.encode(Serialization.write(turn))))

  /** Withdraws a turn that nobody has begun to execute. */
  def withdraw(root: Path, conf: Configuration): Unit = DurableFiles.in(root, conf).delete(file(root))

  /** Deletes new state that no turn names. A command that still writes it doesn't find it, and gives up. */
  def deleteStaged(root: Path, conf: Configuration): Unit = {
    val files = DurableFiles.in(root, conf)
    val kept = find(root, conf).map(_.staged)
    files.list(directory(root)).map(_.getPath).foreach { path =>
      if (path.getName.startsWith(Staged) && !kept.contains(path.getName)) files.delete(path)
    }
  }

  /** Executes a turn, if there is one. This may be repeated, and by several at once.
    *
    * @throws io.tailrace.common.TailraceStateException if the file is damaged, or the file system fails
    */
  def finish(root: Path, conf: Configuration): Unit = find(root, conf).foreach { turn =>
    val unfinished = new UnfinishedTurn(root, conf, turn)
    if (unfinished.isPossible && unfinished.isAlone()) unfinished.run()
    else
      logWarning(
        s"TAILRACE_STATE_RESCALE_LOST: a rescaling of $root to ${turn.partitions} partitions has no effect. The " +
          "query ran meanwhile, or another rescaling has begun. The query goes on with the number that it has"
      )
    val files = DurableFiles.in(root, conf)
    // Without the turn nobody would look for the new state.
    files.delete(new Path(directory(root), turn.staged))
    files.delete(file(root))
  }

  /** The files of new state, which are below its partitions' directories. */
  def filesOf(staged: Path, conf: Configuration): Seq[StagedStateFile] = {
    val files = new DurableFiles(SparkCheckpoints.files(staged, conf))
    def below(directory: Path, path: String): Seq[StagedStateFile] =
      files.list(directory).flatMap { status =>
        val name = status.getPath.getName
        val inside = if (path.isEmpty) name else s"$path/$name"
        // The metadata is that of the operators as they were.
        if (name.startsWith("_")) Nil
        else if (status.isDirectory) below(status.getPath, inside)
        else Seq(StagedStateFile(inside, status.getLen))
      }
    below(new Path(staged, "state"), "")
  }

  private final class UnfinishedTurn(root: Path, conf: Configuration, turn: RepartitionTurn) {
    private val spark = new SparkCheckpoint(root, conf)
    private val manager = SparkCheckpoints.files(root, conf)
    private val files = new DurableFiles(manager)
    private val staged = new Path(new Path(directory(root), turn.staged), "state")

    private lazy val waiting: Set[String] = turn.files.filter(f => isThere(staged, f)).map(_.path).toSet

    private val next = turn.batch + 1
    private def isOurs(entry: String): Boolean = entry == turn.next

    /** A query of another driver may have continued before the turn was noticed. */
    def isPossible: Boolean =
      spark.begunBatches.lastOption.exists(last => last == turn.batch || last == next) &&
        spark.entryText(next).forall(entry => isOurs(entry) || turn.former.contains(entry)) &&
        turn.files.forall(f => waiting(f.path) || isThere(spark.state, f))

    /** Begins the next batch, so that no query elsewhere does. The first to begin it owns it. */
    def isAlone(): Boolean = spark.entryText(next) match {
      case None =>
        try spark.begin(next, turn.next)
        catch { case _: FileAlreadyExistsException => () }
        spark.entryText(next).exists(isOurs)
      case Some(entry) =>
        if (!isOurs(entry)) spark.replaceEntry(next, turn.next)
        true
    }

    private def isThere(parent: Path, file: StagedStateFile): Boolean =
      length(new Path(parent, file.path)).contains(file.length)

    private def length(path: Path): Option[Long] = lengths.get(path.getParent).flatMap(_.get(path.getName))

    private lazy val lengths: Map[Path, Map[String, Long]] = {
      val directories =
        for (f <- turn.files; parent <- Seq(staged, spark.state)) yield new Path(parent, f.path).getParent
      val found = new ConcurrentHashMap[Path, Map[String, Long]]
      each(directories.distinct) { directory =>
        found.put(directory, files.list(directory).map(named).toMap): Unit
      }
      found.asScala.toMap
    }

    private def named(status: FileStatus) = status.getPath.getName -> status.getLen

    def run(): Unit = {
      val moved = turn.files.map(_.path).filter(waiting)
      each(moved.map(path => new Path(spark.state, path).getParent).distinct)(manager.mkdirs)
      each(moved) { path =>
        SparkCheckpoints.move(manager, new Path(staged, path), new Path(spark.state, path), conf)
      }
      turn.operators.foreach { operator =>
        // Spark's readers list them.
        val former = files.list(spark.directory(operator)).map(_.getPath)
        each(former.filter(_.getName.toIntOption.exists(_ >= turn.partitions)))(files.delete)
        spark.setMetadata(operator, turn.partitions, turn.batch)
      }
      if (turn.ids.nonEmpty)
        spark.setCheckpointIds(turn.batch, turn.ids.map { case (operator, ids) => operator.toLong -> ids })
      spark.setPartitions(turn.batch, turn.partitions)
    }

    private def each[A](items: Seq[A])(work: A => Unit): Unit =
      SparkState.sideBySide("tailrace-turn", Threads, items)(work)
  }
}
