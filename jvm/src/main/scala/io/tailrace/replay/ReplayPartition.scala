package io.tailrace.replay

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.util.SerializableConfiguration

/** What the tasks of a micro-batch need to know.
  *
  * @param attempt names this run of the batch; the files of another one are never mixed with its own
  */
private[replay] final case class ReplayBatch(
    filter: String,
    directory: String,
    hadoopConf: Broadcast[SerializableConfiguration],
    files: MarkFiles,
    clockMs: Long,
    forgottenBefore: Long,
    tasks: Int,
    attempt: String = UUID.randomUUID.toString
)

/** Where a record has what it is judged by.
  *
  * @param metadata  ordinals, of one column or of three
  * @param eventTime ordinal, or -1
  */
private[replay] final case class ReplayColumns(
    metadata: Array[Int],
    eventTime: Int,
    all: Seq[Attribute]
)

/** One task. A function by inheritance: Spark need not look for closures in it.
  *
  * @param batch none for a batch frame, which begins without marks and leaves none
  */
private[replay] final class ReplayPartition(
    columns: ReplayColumns,
    settings: ReplaySettings,
    batch: Option[ReplayBatch],
    metrics: Map[String, SQLMetric],
    counter: ReplayCounter
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    lazy val log = batch.map(b => new MarkLog(new Path(b.directory), b.hadoopConf.value.value, settings))
    val base =
      batch.fold(new MarkTable(settings.disorder))(b => MarkCache.get(b.filter, b.files, log.get))
    // In a batch frame nothing is forgotten, so no time matters.
    val clock = new RecordClock(columns.eventTime, batch.fold(0L)(_.clockMs), base.newestMs)
    val forgottenBefore = batch.fold(Long.MinValue)(_.forgottenBefore)
    val task = new ReplayTask(base, MetadataReader(columns.metadata), clock, forgottenBefore)
    val toUnsafe = UnsafeProjection.create(columns.all, columns.all)
    val mark = marker()

    new Iterator[InternalRow] {
      private var waiting: InternalRow = _
      private var ended = false

      override def hasNext: Boolean = {
        if (waiting == null && !ended) waiting = nextRow()
        waiting != null
      }

      private def nextRow(): InternalRow = {
        while (rows.hasNext) {
          val row = rows.next() match {
            case unsafe: UnsafeRow => unsafe
            case other => toUnsafe(other)
          }
          val isReplay = task.isReplay(row)
          if (settings.divert || !isReplay) return mark(row, isReplay)
        }
        ended = true
        for { b <- batch; l <- log } l.write(b.files.batch, b.attempt, index, b.tasks, task.moved)
        show(task.counts)
        null
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException("no more records")
        val row = waiting
        waiting = null
        row
      }
    }
  }

  private def show(counts: ReplayCounts): Unit = {
    counter.add(counts)
    metrics(
      "numOutputRows"
    ) += counts.passed + counts.unprotected + (if (settings.divert) counts.replays else 0L)
    metrics("replays") += counts.replays
    metrics("unprotected") += counts.unprotected
    metrics("gaps") += counts.gaps
    metrics("returned") += counts.returned
  }

  private def marker(): (UnsafeRow, Boolean) => InternalRow =
    if (!settings.divert) (row, _) => row
    else {
      val joiner =
        GenerateUnsafeRowJoiner.create(DataTypeUtils.fromAttributes(columns.all), ReplaySettings.FlagSchema)
      val flags = UnsafeProjection.create(ReplaySettings.FlagSchema)
      val no = flags(InternalRow(false)).copy()
      val yes = flags(InternalRow(true)).copy()
      (row, isReplay) => joiner.join(row, if (isReplay) yes else no)
    }
}
