package io.tailrace.replay

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.tailrace.DriverCall
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.{Mark, MarkedRows, StepwiseRows, UnsafeRows}
import io.tailrace.driver.PartitionAccumulator

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
  * @param home      which partition it is read from
  * @param oneHome   whether all rows of a task are of one partition
  */
private[replay] final case class ReplayColumns(
    metadata: Array[Int],
    eventTime: Int,
    home: Seq[Attribute],
    oneHome: Boolean,
    all: Seq[Attribute]
)

/** One task. A function by inheritance: Spark need not look for closures in it.
  *
  * @param batch   none for a batch frame, which begins without marks and leaves none
  * @param claims  kept by the RDD on the driver, for as long as its tasks may ask
  */
private[replay] final class ReplayPartition(
    columns: ReplayColumns,
    settings: ReplaySettings,
    batch: Option[ReplayBatch],
    metrics: Map[String, SQLMetric],
    counter: PartitionAccumulator[ReplayCounts],
    claims: DriverCall
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    lazy val log = batch.map(b => new MarkLog(new Path(b.directory), b.hadoopConf.value.value, settings))
    val base =
      batch.fold(new MarkTable(settings.disorder))(b => MarkCache.get(b.filter, b.files, log.get))
    // In a batch frame nothing is forgotten, so no time matters.
    val clock = new RecordClock(columns.eventTime, batch.fold(0L)(_.clockMs), base.newestMs)
    val forgottenBefore = batch.fold(Long.MinValue)(_.forgottenBefore)
    val task = new ReplayTask(
      base,
      MetadataReader(columns.metadata),
      clock,
      forgottenBefore,
      claims(_)
    )
    val homes = new RecordHomes(columns.home, columns.all, columns.oneHome)(task.enter)
    val toUnsafe = new UnsafeRows(columns.all)
    val mark = marker()

    new StepwiseRows[InternalRow] {
      override protected def step(): InternalRow =
        if (rows.hasNext) {
          val row = toUnsafe(rows.next())
          homes.of(row)
          val isReplay = task.isReplay(row)
          if (settings.marksReplays || !isReplay) mark(row, isReplay) else null
        } else {
          end()
          task.end()
          for { b <- batch; l <- log } l.write(b.files.batch, b.attempt, index, b.tasks, task.moved)
          show(index, task.counts)
          null
        }
    }
  }

  private def show(index: Int, counts: ReplayCounts): Unit = {
    counter.add(index -> counts)
    metrics(
      "numOutputRows"
    ) += counts.passed + counts.unprotected + (if (settings.marksReplays) counts.replays else 0L)
    metrics("replays") += counts.replays
    metrics("unprotected") += counts.unprotected
    metrics("gaps") += counts.gaps
    metrics("returned") += counts.returned
  }

  private def marker(): (UnsafeRow, Boolean) => InternalRow =
    if (!settings.marksReplays) (row, _) => row
    else {
      val marked = new MarkedRows(columns.all)
      (row, isReplay) => if (isReplay) marked(row, Mark.Replay) else marked.ordinary(row)
    }
}
