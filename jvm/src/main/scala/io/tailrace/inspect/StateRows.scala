package io.tailrace.inspect

import java.io.File
import java.nio.file.Files

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.Errors
import io.tailrace.join.{ColumnTexts, JoinCheckpoint}
import io.tailrace.state._

/** The columns of a join's rows, as its checkpoint names them.
  *
  * @param key   the key columns, by the left side's names
  * @param left  all columns of a left row
  * @param right the columns of a right row but its keys
  */
private[inspect] final case class StateColumns(
    key: StructType,
    left: StructType,
    right: StructType,
    time: DataType
) {

  /** `operator, partition, side, time, key, left, right`: `left` is null for a right row, and the other way
    * round. `key` is null for a left row with a null in a key column.
    */
  val schema: StructType = new StructType()
    .add("operator", LongType, nullable = false)
    .add("partition", IntegerType, nullable = false)
    .add("side", StringType, nullable = false)
    .add("time", time, nullable = false)
    .add("key", key)
    .add("left", left)
    .add("right", right)
}

private[inspect] object StateColumns {

  def of(join: JoinVersion): StateColumns = {
    def columns(setting: String): StructType = {
      val text = join.settings.getOrElse(setting, "")
      ColumnTexts.read(text).getOrElse {
        throw Errors.stateFileCorrupt(join.partitions.head.directory, s"its `$setting` can't be read: $text")
      }
    }
    val left = columns(JoinCheckpoint.LeftColumns)
    val rightKeys = columns(JoinCheckpoint.RightKeys).map(_.name).toSet
    val time = join.settings.get(JoinCheckpoint.LeftTime)
    StateColumns(
      columns(JoinCheckpoint.LeftKeys),
      left,
      StructType(columns(JoinCheckpoint.RightColumns).filterNot(column => rightKeys(column.name))),
      left.find(column => time.contains(column.name)).fold[DataType](TimestampType)(_.dataType)
    )
  }
}

/** Reads a partition in a task. Its runs are copied to the executor's local disk as they are read. */
private[inspect] final class StateRows(
    operator: Long,
    columns: StateColumns,
    required: Seq[String],
    range: StateRange,
    partition: PartitionVersion,
    conf: SerializableConfiguration
) {
  private val directory = SparkState.localDirectory(s"tailrace-state-$operator-${partition.partition}")
  private val keys = new KeyDecoder(columns.key.map(_.dataType).toArray)
  private val number = partition.partition

  // Registered before anything is copied.
  TaskContext.get().addTaskCompletionListener[Unit] { _ =>
    Option(directory.listFiles).toSeq.flatten.foreach(_.delete())
    directory.delete(): Unit
  }

  private val state =
    LoadedState.outside(partition.files(conf.value), partition.version, partition.id, () => newFile())
  state.acquire()
  TaskContext.get().addTaskCompletionListener[Unit](_ => state.release())

  private def newFile(): File = Files.createTempFile(directory.toPath, "", ".run").toFile

  def iterator: Iterator[InternalRow] = {
    val wanted = state.sections.filter(live => asked(live.section))
    LocalRun.prepare(wanted)
    wanted.iterator.flatMap(rows)
  }

  /** Matches and marks of rows are no rows. */
  private def asked(section: Section): Boolean =
    section.maxTime >= range.from && section.minTime <= range.through &&
      (StateRows.sideOf(section.kind) match {
        case Some(Side.Left) => range.left
        case Some(_) => range.right
        case None => false
      })

  private val goneOf = mutable.Map.empty[StoreKind, GoneRows]

  private def rows(live: LiveSection): Iterator[InternalRow] = {
    val kind = live.section.kind
    val side = StateRows.sideOf(kind).get
    val gone = goneOf.getOrElseUpdate(kind, GoneRows.of(state.sections, kind))
    // Eager matching keeps the keys of left rows once more, without the rows.
    val hasKeysAlone = kind == StoreKind.LeftKeySorted
    // Rows up to there have left. A section that is ordered by key still has them.
    val left = kind match {
      case StoreKind.HeldRight => state.manifest.rightExpiredThrough
      case _ if side == Side.Left => state.manifest.expiredThrough
      case _ => Long.MinValue
    }
    val cursor = live.cursor()
    TaskContext.get().addTaskCompletionListener[Unit](_ => cursor.close())
    cursor.first()
    new Iterator[InternalRow] {
      private def counts: Boolean = cursor.time > left && !gone.contains(cursor.seq) &&
        !(hasKeysAlone && RowLayout.valueLength(cursor.base, cursor.at) == 0)

      override def hasNext: Boolean = {
        while (cursor.isValid && !counts) cursor.next()
        if (!cursor.isValid) cursor.close()
        cursor.isValid
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException
        val row = new GenericInternalRow(required.map(value(_, side, cursor)).toArray[Any])
        cursor.next()
        row
      }
    }
  }

  private def value(column: String, side: String, at: RunCursor): Any = column match {
    case "operator" => operator
    case "partition" => number
    case "side" => UTF8String.fromString(side)
    case "time" => at.time
    case "key" =>
      val key = at.keyBytes
      if (key.isEmpty) null else keys.decodeWhole(key)
    case "left" => if (side == Side.Left) row(at, columns.left) else null
    case "right" => if (side == Side.Right) row(at, columns.right) else null
  }

  private def row(at: RunCursor, schema: StructType): UnsafeRow = {
    val bytes = at.valueBytes
    val row = new UnsafeRow(schema.size)
    row.pointTo(bytes, bytes.length)
    row
  }
}

private[inspect] object StateRows {

  /** The side whose rows are in a store; none if it has no rows of one. */
  def sideOf(kind: StoreKind): Option[String] = kind match {
    case StoreKind.LeftTimeSorted | StoreKind.LeftKeySorted | StoreKind.HeldLeft => Some(Side.Left)
    case StoreKind.RightKeySorted | StoreKind.HeldRight => Some(Side.Right)
    case _ => None
  }

  /** The rows of the partitions of a task. */
  def of(
      operator: Long,
      columns: StateColumns,
      required: Seq[String],
      range: StateRange,
      conf: SerializableConfiguration
  ): Iterator[PartitionVersion] => Iterator[InternalRow] =
    _.flatMap(new StateRows(operator, columns, required, range, _, conf).iterator)
}
