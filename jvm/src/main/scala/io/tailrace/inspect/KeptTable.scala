package io.tailrace.inspect

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.{Errors, LiteralPath}

/** What an operator keeps in files of its own, as rows: one task each, because there may be millions of them.
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

  /** What an operator keeps after a batch. */
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

/** What a task reads. */
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
