package io.tailrace.inspect

import java.io.File
import java.nio.file.Files

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.Errors
import io.tailrace.join.RowFit
import io.tailrace.state._

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
    LoadedState
      .outside(partition.files(conf.value), partition.version, partition.id, () => newFile(), columns.shapes)
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
        !(hasKeysAlone && RowLayout.valueLength(cursor.base, cursor.at) == 0) &&
        (side == Side.Left || isFirstPart(live, cursor))

      override def hasNext: Boolean = {
        while (cursor.isValid && !counts) cursor.next()
        if (!cursor.isValid) cursor.close()
        cursor.isValid
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException
        val row = new GenericInternalRow(required.map(value(_, side, live, cursor)).toArray[Any])
        cursor.next()
        row
      }
    }
  }

  /** A right row of a hot key is in the state once for each part of the key. */
  private def isFirstPart(live: LiveSection, at: RunCursor): Boolean =
    columns.part.forall(keyOf(live, at).getInt(_) == 0)

  private def keyOf(live: LiveSection, at: RunCursor): InternalRow =
    try keys.decodeWhole(at.keyBytes)
    catch { case NonFatal(e) => throw unreadable(live, columns.key, s"a key has other columns ($e)") }

  private def unreadable(live: LiveSection, of: StructType, reason: String): Throwable =
    Errors.stateColumnsUnreadable(live.local.name, of.toDDL, reason)

  private def value(column: String, side: String, live: LiveSection, at: RunCursor): Any = column match {
    case "operator" => operator
    case "partition" => number
    case "side" => UTF8String.fromString(side)
    case "time" => at.time
    case "key" =>
      if (RowLayout.keyLength(at.base, at.at) == 0) null else columns.shownKey(keyOf(live, at))
    case "left" => if (side == Side.Left) columns.shownLeft(row(live, at, columns.left)) else null
    case "right" => if (side == Side.Right) row(live, at, columns.right) else null
  }

  private def row(live: LiveSection, at: RunCursor, schema: StructType): UnsafeRow = {
    val bytes = at.valueBytes
    val row = new UnsafeRow(schema.size)
    row.pointTo(bytes, bytes.length)
    RowFit.misfit(row, schema).foreach(reason => throw unreadable(live, schema, reason))
    row
  }
}

private[tailrace] object StateRows {

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
