package io.tailrace.recursion

import java.util.Arrays

import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.StepwiseRows
import io.tailrace.driver.SkippedBatch

/** The values that the tasks of a micro-batch work with.
  *
  * @param name  of the first task's file
  * @param columns the rows' schema, as JSON
  * @param before  what a run of the batch in an earlier start has fed back, if it has come to its end
  * @param lateMs  at what time and before it a row would be dropped when it comes round, in milliseconds
  */
private[recursion] final case class FeedbackRun(
    directory: String,
    hadoopConf: Broadcast[SerializableConfiguration],
    batch: Long,
    name: FeedbackName,
    columns: String,
    oldest: OldestTime,
    before: Option[Seq[String]],
    lateMs: Option[Long]
)

/** One task. A function by inheritance: Spark need not look for closures in it. */
private[recursion] final class FeedbackTask(
    run: FeedbackRun,
    rules: FixpointRules,
    columns: RoundColumns,
    times: Seq[Int]
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val eventTimes = new EventTimes(columns.all, times)
    run.before.filter(_ => isSkipped) match {
      case Some(files) =>
        stand(
          files.zipWithIndex.collect { case (file, i) if i % run.name.tasks == index => file },
          eventTimes
        )
        run.oldest.end(index)
        rows
      case None => new FedBackRows(run, run.name.copy(task = index), rules, columns, eventTimes, rows)
    }
  }

  /** The sink has the rows of an earlier run of this batch. Those of this one may be others, if op has random functions or the
    * source another order: what goes round is what has come out.
    */
  private def isSkipped: Boolean = TaskContext.get().getLocalProperty(SkippedBatch.Property) != null

  private def stand(files: Seq[String], eventTimes: EventTimes): Unit = {
    val reader = new FeedbackReader(files, run.hadoopConf.value, columns.all.size, run.columns)
    try
      while (reader.next()) eventTimes.oldest(reader.get().asInstanceOf[UnsafeRow]).foreach(run.oldest.add(_))
    finally reader.close()
  }
}

/** The rows that come out of a task. What goes round is in its file when the last one has been taken. */
private[recursion] final class FedBackRows(
    run: FeedbackRun,
    name: FeedbackName,
    rules: FixpointRules,
    columns: RoundColumns,
    times: EventTimes,
    rows: Iterator[InternalRow]
) extends StepwiseRows[InternalRow] {
  private val judge = new RowJudge(rules.settings)
  private val toUnsafe = rules.toUnsafe()
  private val sample = rules.sample()
  private val log = new FeedbackLog(new Path(run.directory), run.hadoopConf.value.value)
  private val late = run.lateMs.fold(Long.MinValue)(_ * 1000)
  private val startedNanos = System.nanoTime

  private var file: CancellableFSDataOutputStream = _
  private val writer = {
    val place = FeedbackLog.place(log.file(run.batch, name))
    new FeedbackFile.Writer(() => open(), place, run.columns)
  }
  private var byDepth = new Array[Long](0)

  // The task failed, or nobody wanted the rest of its rows.
  TaskContext.get().addTaskCompletionListener[Unit] { _ => if (!hasEnded && file != null) file.cancel() }

  private def open(): CancellableFSDataOutputStream = {
    file = log.create(run.batch, name)
    file
  }

  override protected def step(): InternalRow =
    if (rows.hasNext) judged(toUnsafe(rows.next()))
    else {
      finish()
      null
    }

  /** @return the row as it comes out; null if it doesn't */
  private def judged(row: UnsafeRow): InternalRow = {
    val depth = columns.depth.fold(1)(row.getInt)
    val verdict = judge.judge(depth, rules.closesCycle(row))
    verdict match {
      case Verdict.TooDeep =>
        throw RecursionErrors.tooDeep(depth - 1, judge.returned + 1, Seq(sample.keys(row)))
      case Verdict.TooMany =>
        throw RecursionErrors.tooManyRows(rules.settings.maxRows.get, depth, Seq(sample.keys(row)))
      case Verdict.Cycle => throw RecursionErrors.cycle(sample.path(row))
      case Verdict.Runaway => throw RecursionErrors.runaway(rules.settings.name, depth - 1, sample.keys(row))
      case _ =>
    }
    if (verdict.isFedBack) {
      writer.add(row.getSizeInBytes)(row.writeToStream(_, null))
      times.oldest(row).foreach { time =>
        if (time <= late)
          throw RecursionErrors.late(rules.settings.name, time, run.lateMs.get, sample.keys(row))
        run.oldest.add(time)
      }
    }
    if (!verdict.isReturned) null
    else {
      count(depth)
      row
    }
  }

  private def count(depth: Int): Unit = {
    if (byDepth.length < depth) byDepth = Arrays.copyOf(byDepth, depth)
    byDepth(depth - 1) += 1
  }

  private def finish(): Unit = {
    writer.end()
    if (file == null) log.writeEmpty(run.batch, name) else log.close(file, run.batch, name)
    run.oldest.end(name.task)
    end()
    val nanos = System.nanoTime - startedNanos
    val hops = byDepth.toVector.map(rows => Hop(rows, if (rows > 0) nanos else 0))
    rules.sink.report(name.task, HopCounts(hops, writer.rows, judge.stopped, judge.cycles))
  }
}
