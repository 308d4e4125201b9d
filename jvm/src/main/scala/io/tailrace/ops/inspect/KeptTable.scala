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
  * @param root      of the operators' directories, below the checkpoint; each has the name of its operator
  * @param isUniform whether all operators have the same columns
  * @param batches   the batches after which the files of these names in a directory still say what there is
  * @param table     the columns and tasks of operators, at the end of a batch. It throws if files of it are gone, or
  *                  damaged
  */
private[inspect] final class KeptContent(
    val root: String,
    val isUniform: Boolean,
    val batches: Seq[String] => Seq[Long],
    val table: (Seq[KeptOperator], Long, Configuration) => (StructType, Seq[KeptFile])
)

private[inspect] object KeptContent {

  /** Operators that all have the same columns, and a task each.
    *
    * @param rows of an operator after a batch, from the files of a directory
    */
  def uniform(root: String, columns: StructType, batches: Seq[String] => Seq[Long])(
      rows: (UTF8String, Path, Long, Configuration) => Iterator[InternalRow]
  ): KeptContent = new KeptContent(
    root,
    isUniform = true,
    batches,
    (operators, batch, _) =>
      columns -> operators.map { case KeptOperator(name, directory) =>
        KeptFile(conf => new KeptRows(rows(Kept.text(name), new Path(directory), batch, conf.value)))
      }
  )
}

/** An operator that keeps files. */
private[inspect] final case class KeptOperator(name: String, directory: String)

/** A file that one task reads. */
private[inspect] final case class KeptFile(rows: SerializableConfiguration => PartitionReader[InternalRow])
    extends InputPartition

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
    StateContent.Marks -> KeptMarks.content,
    StateContent.Hosts -> KeptHosts.content,
    StateContent.Partitions -> KeptPartitions.content,
    StateContent.InFlight -> KeptInFlight.content
  )

  def of(asked: StateContent, options: StateOptions, conf: Configuration): StateTable = {
    val content = contents(asked)
    val root = LiteralPath.of(options.path)
    val completed = new SparkCheckpoint(root, conf).completedBatches(options.path)
    val operators = chosen(content, options, root, conf)
    options.version.foreach { version =>
      val kept = operators.map { operator =>
        val directory = new Path(operator.directory)
        content.batches(DurableFiles.in(directory, conf).names(directory)).toSet
      }
      val retained = completed.filter(batch => kept.forall(_.contains(batch))).map(_ + 1)
      if (!retained.contains(version)) {
        val ranges = CheckpointInspection.ranges(retained)
        throw Errors.checkpointVersionNotRetained(options.path, version, ranges)
      }
    }
    val version = options.version.getOrElse(completed.last + 1)
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
      root: Path,
      conf: Configuration
  ): Seq[KeptOperator] = {
    val all = operatorsOf(content, root, conf)
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
private object KeptMarks {
  private val columns = new StructType()
    .add("filter", StringType, nullable = false)
    .add("producer", LongType, nullable = false)
    .add("source_partition", IntegerType, nullable = false)
    .add("home", StringType)
    .add("mark", LongType, nullable = false)
    .add("missing", LongType, nullable = false)
    .add("last_seen", TimestampType)

  val content: KeptContent = KeptContent.uniform(
    MarkLog.Root,
    columns,
    Kept.sinceSnapshot(_, MarkLog.Snapshot, isWhole = true)
  ) { (name, directory, batch, conf) =>
    val log = new MarkLog(directory, conf, ReplaySettings(name.toString))
    val marks = log.load(log.before(batch + 1), None)
    val homes = (0 until marks.homes.size).map(home => Kept.text(marks.homes.name(home).get))
    (0 until marks.size).iterator.map { entry =>
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
    }
  }
}

/** The hosts of accurate watermarks: how far the log of each has been read. */
private object KeptHosts {
  private val columns = new StructType()
    .add("watermark", StringType, nullable = false)
    .add("host", StringType, nullable = false)
    .add("latest", TimestampType)
    .add("ahead_of_clock", LongType, nullable = false)
    .add("low_watermark", TimestampType)

  val content: KeptContent = KeptContent.uniform(
    ProgressLog.Root,
    columns,
    Kept.sinceSnapshot(_, ProgressLog.Snapshot, isWhole = false)
  ) { (name, directory, batch, conf) =>
    val (low, hosts) = new ProgressLog(directory, conf, beginsAnew = false).read(batch)
    (0 until hosts.size).iterator.map { host =>
      val latest = Kept.time(hosts.time(host))
      InternalRow(name, Kept.text(hosts.name(host)), latest, hosts.future(host), Kept.time(low))
    }
  }
}

/** The source partitions of synced joins: how far each has been read, and which of them a side waits for. */
private object KeptPartitions {
  private val columns = new StructType()
    .add("join", StringType, nullable = false)
    .add("side", StringType, nullable = false)
    .add("partition", StringType, nullable = false)
    .add("latest", TimestampType)
    .add("idle_for", DayTimeIntervalType(), nullable = false)
    .add("excluded", BooleanType, nullable = false)
    .add("side_read_through", TimestampType)

  val content: KeptContent = KeptContent.uniform(SyncLog.Root, columns, Kept.numbered(_).map(_._1)) {
    (name, directory, batch, conf) =>
      val progress = new SyncLog(directory, conf).read(batch)
      for {
        side <- Side.values.iterator
        state = progress.side(side)
        partition <- state.known
      } yield InternalRow(
        name,
        Kept.text(side.name),
        Kept.text(partition.name),
        Kept.time(partition.latest),
        partition.idleMs * 1000,
        partition.excluded,
        Kept.time(state.low)
      )
  }
}

/** The rows that a recursion has fed back, which its next micro-batch reads. */
private object KeptInFlight {
  val content: KeptContent =
    new KeptContent(FeedbackLog.Root, isUniform = false, Kept.numbered(_).map(_._1), table)

  private def table(operators: Seq[KeptOperator], batch: Long, conf: Configuration) = {
    val Seq(recursion) = operators: @unchecked
    val rounds = KeptRounds.of(new Path(recursion.directory), batch, conf)
    val columns = new StructType()
      .add("recursion", StringType, nullable = false)
      .add("depth", IntegerType)
      .add("row", rounds.users, nullable = false)
    columns -> rounds.files.map(files => KeptFile(new InFlightReader(recursion.name, files, rounds, _)))
  }

  private final class InFlightReader(
      recursion: String,
      files: Seq[String],
      rounds: KeptRounds,
      conf: SerializableConfiguration
  ) extends PartitionReader[InternalRow] {
    private val name = Kept.text(recursion)
    private val in = rounds.reader(files, conf)
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
