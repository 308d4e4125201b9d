package io.tailrace.ops.inspect

import java.util.{EnumSet, Set => JavaSet}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.CustomMetric
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.SerializableConfiguration

/** A table of the format: read in batches, by tasks that read files. */
private[inspect] abstract class StateTable extends Table with SupportsRead {
  override def name(): String = s"tailrace-state of $content"
  override def capabilities(): JavaSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)

  /** The content, as plans show it to a user. */
  protected def content: String

  def rows: StructType
  override def schema(): StructType = rows
}

/** The rows of a join's state.
  *
  * @param before the version that this one is compared with
  * @param slots  tasks that Spark may run side by side
  */
private[inspect] final class JoinTable(
    join: JoinVersion,
    before: Option[JoinVersion],
    columns: StateColumns,
    slots: Int,
    conf: SerializableConfiguration
) extends StateTable {
  override protected def content: String = s"operator ${join.operator}, version ${join.version}"
  override def rows: StructType = columns.schema
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = new Builder

  private final class Builder
      extends ScanBuilder
      with SupportsPushDownV2Filters
      with SupportsPushDownRequiredColumns {
    private var asked = AskedRows()
    private var required = columns.schema

    private var answered = Array.empty[Predicate]

    override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
      asked = predicates.foldLeft(asked)(_.and(_, columns))
      val isLookup = KeyLookup.of(columns, asked, join.partitions.size).nonEmpty
      val (left, done) = {
        val rest = AskedRows.unanswered(predicates.toSeq, columns, isLookup).toSet
        predicates.partition(rest)
      }
      answered = done
      left
    }

    override def pushedPredicates(): Array[Predicate] = answered

    /** Structs come whole: their bytes are in one place. */
    override def pruneColumns(wanted: StructType): Unit =
      required = StructType(wanted.fieldNames.map(columns.schema(_)))

    override def build(): Scan = new StateScan(name(), slices(asked), required) {
      override def createReaderFactory(): PartitionReaderFactory =
        new StateReaders(join.operator, columns, required, asked, conf)
    }
  }

  private def slices(asked: AskedRows): Seq[StateSlice] = {
    val lookups = KeyLookup.of(columns, asked, join.partitions.size)
    val wanted = join.partitions.filter { partition =>
      val number = partition.partition
      asked.operators.forall(_.contains(join.operator)) &&
      asked.partitions.forall(_.contains(number)) && lookups.forall(_.contains(number))
    }
    // A lookup in few partitions would have fewer tasks than the machine has cores.
    val of = if (lookups.isEmpty || before.nonEmpty) 1 else Math.max(1, slots / Math.max(1, wanted.size))
    for (partition <- wanted; slice <- 0 until of)
      yield StateSlice(
        partition,
        before.map(_.partitions(partition.partition)),
        lookups.map(_(partition.partition)),
        slice,
        of
      )
  }
}

/** A scan whose tasks are known, and of which a plan says how many they are. */
private[inspect] abstract class StateScan(table: String, tasks: Seq[InputPartition], columns: StructType)
    extends Scan
    with Batch {
  override def readSchema(): StructType = columns
  override def description(): String = s"$table, ${tasks.size} tasks"
  override def toBatch: Batch = this
  override def planInputPartitions(): Array[InputPartition] = tasks.toArray
  override def supportedCustomMetrics(): Array[CustomMetric] = Array(new PagesRead)
  override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
}

private final class StateReaders(
    operator: Long,
    columns: StateColumns,
    required: StructType,
    asked: AskedRows,
    conf: SerializableConfiguration
) extends PartitionReaderFactory {
  override def createReader(slice: InputPartition): PartitionReader[InternalRow] =
    new StateRows(operator, columns, required, asked, slice.asInstanceOf[StateSlice], conf)
}
