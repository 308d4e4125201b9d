package io.tailrace.ops.inspect

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.{Errors, LiteralPath, Side}
import io.tailrace.recursion.{FeedbackLog, KeptRounds}
import io.tailrace.replay.{MarkLog, ReplaySettings}
import io.tailrace.sync.SyncLog
import io.tailrace.watermark.ProgressLog

/** Rows that an operator keeps in files of its own: one task per operator, because there may be millions of them.
  *
  * @param root    of the operators' directories, below the checkpoint; each has the name of its operator
  * @param columns of an operator
  */
private[inspect] abstract class KeptContent(val root: String) {

  /** The batches after which the files in a directory still say what there is.
    *
    * @param names of the files
    */
  def batches(names: Seq[String]): Seq[Long]

  /** @param batch whose end is looked at
    * @throws io.tailrace.common.TailraceStateException if files of it are gone, or damaged
    */
  def table(operators: Seq[KeptOperator], batch: Long, conf: Configuration): (StructType, Seq[KeptFile])

  /** True if all operators have the same columns. */
  def isUniform: Boolean
}

/** Operators that all have the same columns, and a task each. */
private[inspect] abstract class UniformContent(root: String) extends KeptContent(root) {
  protected def columns: StructType

  /** The file of an operator after a batch. */
  protected def file(operator: KeptOperator, batch: Long): KeptFile

  override def table(
      operators: Seq[KeptOperator],
      batch: Long,
      conf: Configuration
  ): (StructType, Seq[KeptFile]) =
    columns -> operators.map(file(_, batch))

  override def isUniform: Boolean = true
}

/** An operator that keeps files. */
private[inspect] final case class KeptOperator(name: String, directory: String)

/** A file that one task reads. */
private[inspect] trait KeptFile extends InputPartition {
  def rows(conf: SerializableConfiguration): PartitionReader[InternalRow]
}

private[inspect] final class KeptTable(
    override protected val content: String,
    override val rows: StructType,
    files: Seq[KeptFile],
    conf: SerializableConfiguration
) extends StateTable {
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new StateScan(name(), files, rows) {
      override def createReaderFactory(): PartitionReaderFactory = new KeptReaders(conf)
    }
}

private final class KeptReaders(conf: SerializableConfiguration) extends PartitionReaderFactory {
  override def createReader(file: InputPartition): PartitionReader[InternalRow] =
    file.asInstanceOf[KeptFile].rows(conf)
}

/** Rows that are in memory. */
private[inspect] final class KeptRows(rows: Iterator[InternalRow]) extends PartitionReader[InternalRow] {
  private var row: InternalRow = _
  override def get(): InternalRow = row
  override def close(): Unit = ()

  override def next(): Boolean = {
    val isThere = rows.hasNext
    if (isThere) row = rows.next()
    isThere
  }
}

private[inspect] object KeptTable {
  private val contents = Map[StateContent, KeptContent](
    StateContent.Marks -> KeptMarks,
    StateContent.Hosts -> KeptHosts,
    StateContent.Partitions -> KeptPartitions,
    StateContent.InFlight -> KeptInFlight
  )

  def of(asked: StateContent, options: StateOptions, conf: Configuration): StateTable = {
    val content = contents(asked)
    val root = LiteralPath.of(options.path)
    val completed = new SparkCheckpoint(root, conf).completedBatches(options.path)
    val operators = chosen(content, options, operatorsOf(content, root, conf), root, conf)
    val version = options.version.getOrElse(completed.last + 1)
    if (options.version.nonEmpty) checkRetained(content, operators, options.path, version, completed, conf)
    val (columns, files) = content.table(operators, version - 1, conf)
    val names = operators.map(_.name).mkString(", ")
    new KeptTable(
      s"${asked.name} of $names, version $version",
      columns,
      files,
      new SerializableConfiguration(conf)
    )
  }

  private def operatorsOf(content: KeptContent, root: Path, conf: Configuration): Seq[KeptOperator] = {
    val directory = new Path(root, content.root)
    val found = DurableFiles.in(root, conf).list(directory).filter(_.isDirectory).map(_.getPath.getName)
    found.sorted.map(name => KeptOperator(name, new Path(directory, name).toString))
  }

  private def chosen(
      content: KeptContent,
      options: StateOptions,
      all: Seq[KeptOperator],
      root: Path,
      conf: Configuration
  ): Seq[KeptOperator] = {
    if (all.isEmpty) {
      val others = contents.collect { case (of, other) if operatorsOf(other, root, conf).nonEmpty => of.name }
      val there = (StateContent.Rows.name +: others.toSeq.sorted).mkString(", ")
      throw StateOptions.invalid("of", options.of.name, s"something that this query keeps, one of $there")
    }
    val found = options.operator.fold(all)(name => all.filter(_.name == name))
    if (found.isEmpty || (found.size > 1 && !content.isUniform))
      throw StateOptions.invalid(
        "operator",
        options.operator.getOrElse(""),
        s"one of ${all.map(_.name).mkString(", ")}"
      )
    found
  }

  private def checkRetained(
      content: KeptContent,
      operators: Seq[KeptOperator],
      checkpoint: String,
      version: Long,
      completed: Seq[Long],
      conf: Configuration
  ): Unit = {
    val kept = operators.map { operator =>
      val directory = new Path(operator.directory)
      content.batches(DurableFiles.in(directory, conf).names(directory)).toSet
    }
    val retained = completed.filter(batch => kept.forall(_.contains(batch))).map(_ + 1)
    if (!retained.contains(version))
      throw Errors.checkpointVersionNotRetained(checkpoint, version, CheckpointInspection.ranges(retained))
  }
}

private object Kept {
  private val Number = """(\d+)(.*)""".r

  /** The numbers of files, with what follows them. */
  def numbered(names: Seq[String]): Seq[(Long, String)] = names.collect { case Number(number, suffix) =>
    number.toLongOption.map(_ -> suffix)
  }.flatten

  /** Batches whose files add to a snapshot.
    *
    * @param isWhole whether the files of all batches say as much as a snapshot
    */
  def sinceSnapshot(names: Seq[String], snapshot: String, isWhole: Boolean): Seq[Long] = {
    val found = numbered(names)
    val oldest = found.collect { case (batch, `snapshot`) => batch }.minOption
    val first = oldest.orElse(Option.when(isWhole)(0L))
    found.map(_._1).filter(batch => first.exists(batch >= _)).distinct
  }

  def text(value: String): UTF8String = UTF8String.fromString(value)

  /** A time of a file, in microseconds; null if there is none yet. */
  def time(micros: Long): Any = if (micros == Long.MinValue) null else micros
}

/** The marks of replay filters: how far each origin has come. */
private[inspect] object KeptMarks extends UniformContent(MarkLog.Root) {
  override protected val columns: StructType = new StructType()
    .add("filter", StringType, nullable = false)
    .add("producer", LongType, nullable = false)
    .add("source_partition", IntegerType, nullable = false)
    .add("home", StringType)
    .add("mark", LongType, nullable = false)
    .add("missing", LongType, nullable = false)
    .add("last_seen", TimestampType)

  override def batches(names: Seq[String]): Seq[Long] =
    Kept.sinceSnapshot(names, MarkLog.Snapshot, isWhole = true)

  override protected def file(operator: KeptOperator, batch: Long): KeptFile = Marks(operator, batch)

  private final case class Marks(filter: KeptOperator, batch: Long) extends KeptFile {
    override def rows(conf: SerializableConfiguration): PartitionReader[InternalRow] = {
      val log = new MarkLog(new Path(filter.directory), conf.value, ReplaySettings(filter.name))
      val marks = log.load(log.before(batch + 1), None)
      val name = Kept.text(filter.name)
      val homes = (0 until marks.homes.size).map(home => Kept.text(marks.homes.name(home).get))
      new KeptRows((0 until marks.size).iterator.map { entry =>
        val (home, seen) = (marks.home(entry), marks.lastSeenMs(entry))
        InternalRow(
          name,
          marks.pid(entry),
          marks.partition(entry),
          if (homes.indices.contains(home)) homes(home) else null,
          marks.mark(entry),
          marks.gaps(entry),
          if (seen == Long.MinValue) null else seen * 1000
        )
      })
    }
  }
}

/** The hosts of accurate watermarks: how far the log of each has been read. */
private[inspect] object KeptHosts extends UniformContent(ProgressLog.Root) {
  override protected val columns: StructType = new StructType()
    .add("watermark", StringType, nullable = false)
    .add("host", StringType, nullable = false)
    .add("latest", TimestampType)
    .add("ahead_of_clock", LongType, nullable = false)
    .add("low_watermark", TimestampType)

  override def batches(names: Seq[String]): Seq[Long] =
    Kept.sinceSnapshot(names, ProgressLog.Snapshot, isWhole = false)

  override protected def file(operator: KeptOperator, batch: Long): KeptFile = Hosts(operator, batch)

  private final case class Hosts(watermark: KeptOperator, batch: Long) extends KeptFile {
    override def rows(conf: SerializableConfiguration): PartitionReader[InternalRow] = {
      val log = new ProgressLog(new Path(watermark.directory), conf.value, beginsAnew = false)
      val (low, hosts) = log.read(batch)
      val name = Kept.text(watermark.name)
      new KeptRows((0 until hosts.size).iterator.map { host =>
        val latest = Kept.time(hosts.time(host))
        InternalRow(name, Kept.text(hosts.name(host)), latest, hosts.future(host), Kept.time(low))
      })
    }
  }
}

/** The source partitions of synced joins: how far each has been read, and which of them a side waits for. */
private[inspect] object KeptPartitions extends UniformContent(SyncLog.Root) {
  override protected val columns: StructType = new StructType()
    .add("join", StringType, nullable = false)
    .add("side", StringType, nullable = false)
    .add("partition", StringType, nullable = false)
    .add("latest", TimestampType)
    .add("silent_for", DayTimeIntervalType(), nullable = false)
    .add("excluded", BooleanType, nullable = false)
    .add("side_read_through", TimestampType)

  override def batches(names: Seq[String]): Seq[Long] = Kept.numbered(names).map(_._1)

  override protected def file(operator: KeptOperator, batch: Long): KeptFile = Partitions(operator, batch)

  private final case class Partitions(join: KeptOperator, batch: Long) extends KeptFile {
    override def rows(conf: SerializableConfiguration): PartitionReader[InternalRow] = {
      val progress = new SyncLog(new Path(join.directory), conf.value).read(batch)
      val rows = for {
        side <- Side.values.iterator
        state = progress.side(side)
        partition <- state.known
      } yield InternalRow(
        Kept.text(join.name),
        Kept.text(side.name),
        Kept.text(partition.name),
        Kept.time(partition.latest),
        partition.idleMs * 1000,
        partition.excluded,
        Kept.time(state.low)
      )
      new KeptRows(rows)
    }
  }
}

/** The rows that a recursion has fed back, which its next micro-batch reads. */
private[inspect] object KeptInFlight extends KeptContent(FeedbackLog.Root) {
  override def isUniform: Boolean = false
  override def batches(names: Seq[String]): Seq[Long] = Kept.numbered(names).map(_._1)

  override def table(
      operators: Seq[KeptOperator],
      batch: Long,
      conf: Configuration
  ): (StructType, Seq[KeptFile]) = {
    val Seq(recursion) = operators: @unchecked
    val rounds = KeptRounds.of(new Path(recursion.directory), batch, conf)
    val columns = new StructType()
      .add("recursion", StringType, nullable = false)
      .add("depth", IntegerType)
      .add("row", rounds.users, nullable = false)
    columns -> rounds.files.map(InFlight(recursion.name, _, rounds))
  }

  private final case class InFlight(recursion: String, files: Seq[String], rounds: KeptRounds)
      extends KeptFile {
    override def rows(conf: SerializableConfiguration): PartitionReader[InternalRow] = {
      val name = Kept.text(recursion)
      val in = rounds.reader(files, conf)
      new PartitionReader[InternalRow] {
        override def next(): Boolean = in.next()
        override def close(): Unit = in.close()
        override def get(): InternalRow = {
          val row = in.get()
          val users = rounds.users.fields.zipWithIndex.map { case (column, i) => row.get(i, column.dataType) }
          val depth = rounds.depth.fold[Any](null)(row.getInt(_))
          InternalRow(name, depth, new GenericInternalRow(users))
        }
      }
    }
  }
}
