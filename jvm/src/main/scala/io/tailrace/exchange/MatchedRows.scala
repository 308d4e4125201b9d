package io.tailrace.exchange

import java.io.File
import java.nio.file.Files
import java.util.Arrays

import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import io.tailrace.common.Errors
import io.tailrace.inspect.StateColumns
import io.tailrace.join.RowFit
import io.tailrace.rewrite.JoinState
import io.tailrace.state._

/** The matches that eager matching has found for left rows that wait, in a task: with the left row, and the right row as
  * it came, of which the state may have nothing else any more.
  */
private[exchange] final class MatchedRows(
    join: JoinState,
    columns: StateColumns,
    partition: Int,
    conf: Configuration
) {
  import StoreKind.{JoinedIndicator, LeftTimeSorted, RightKeySorted}

  private val directory = SparkState.localDirectory(s"tailrace-export-${join.operator}-$partition")
  private def newFile(): File = Files.createTempFile(directory.toPath, "", ".run").toFile

  // Registered before anything is copied. Listeners run in reverse order.
  TaskContext.get().addTaskCompletionListener[Unit] { _ =>
    Option(directory.listFiles).toSeq.flatten.foreach(_.delete())
    directory.delete(): Unit
  }
  private val state = LoadedState.outside(
    join.files(join.before, partition, conf),
    join.version,
    join.before.id(partition),
    () => newFile(),
    join.shapes
  )
  state.acquire()
  TaskContext.get().addTaskCompletionListener[Unit](_ => state.release())

  private def sectionsOf(kind: StoreKind): Seq[LiveSection] = {
    val found = state.sections.filter(_.section.kind == kind)
    LocalRun.prepare(found)
    found
  }

  private lazy val rights: Array[Long] = {
    val found = Array.newBuilder[Long]
    sectionsOf(RightKeySorted).foreach(_.foreachRow(found += _.seq))
    val all = found.result()
    Arrays.sort(all)
    all
  }

  def iterator: Iterator[InternalRow] = {
    val number = partition
    val expired = state.manifest.expiredThrough
    val lefts = new MergedSections(sectionsOf(LeftTimeSorted), LeftTimeSorted.order, expired)
    TaskContext.get().addTaskCompletionListener[Unit](_ => lefts.close())
    val matches = sectionsOf(JoinedIndicator)
    val joins = new MergedSections(matches, JoinedIndicator.order, expired)
    TaskContext.get().addTaskCompletionListener[Unit](_ => joins.close())
    val keys = new KeyDecoder(columns.key.map(_.dataType).toArray)
    val left = new UnsafeRow(columns.left.size)
    val payload = new UnsafeRow(columns.right.size)
    val right = UnsafeProjection.create((columns.key ++ columns.right).map(_.dataType).toArray[DataType])
    new Iterator[InternalRow] {
      override def hasNext: Boolean = !joins.isEmpty
      override def next(): InternalRow = {
        val joined = joins.head
        while (!lefts.isEmpty && lefts.head.compareTimeAndSeq(joined.time, joined.seq) < 0) lefts.drop()
        if (lefts.isEmpty || lefts.head.compareTimeAndSeq(joined.time, joined.seq) > 0)
          throw Errors.stateFileCorrupt(matches.head.local.name, "it has a match without its left row")
        val seq = MatchedRows.rightSeq(joined)
        val key = keys.decodeWhole(lefts.head.keyBytes)
        val row = new GenericInternalRow(
          Array[Any](
            number,
            seq,
            Arrays.binarySearch(rights, seq) >= 0,
            pointTo(left, lefts.head, columns.left),
            right(new JoinedRow(key, pointTo(payload, joined, columns.right)))
          )
        )
        joins.drop()
        row.copy()
      }
    }
  }

  private def pointTo(row: UnsafeRow, at: RunCursor, schema: StructType): UnsafeRow = {
    row.pointTo(at.base, RowLayout.valueAt(at.base, at.at), RowLayout.valueLength(at.base, at.at))
    RowFit.misfit(row, schema).foreach { reason =>
      throw Errors.stateColumnsUnreadable(join.state, schema.toDDL, reason)
    }
    row.copy()
  }
}

private[exchange] object MatchedRows {

  /** @param right its columns, those of the key first */
  def schema(left: StructType, right: StructType): StructType = new StructType()
    .add("partition", IntegerType, nullable = false)
    .add("right_seq", LongType, nullable = false)
    .add("right_in_state", BooleanType, nullable = false)
    .add("left", left)
    .add("right", right)

  /** The number of the right row: the second half of a match's key. */
  private def rightSeq(joined: RunCursor): Long =
    java.lang.Long.reverseBytes(Platform.getLong(joined.base, RowLayout.keyAt(joined.at) + 8)) ^ Long.MinValue
}
