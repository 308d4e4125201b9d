package io.tailrace.ops.backfill

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tailrace.{
  FrameStream,
  QueryStart,
  SparkCheckpoints,
  SparkPlans,
  SparkSession,
  StreamingRelationV2
}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{Arguments, LiteralPath}
import io.tailrace.ops.rewrite.{RewriteErrors, StoppedQuery}
import io.tailrace.plan.{UnnumberedSource, WriteCheck}

/** The progress of a backfill.
  *
  * @param plan       none: its first micro-batch hasn't begun
  * @param read       slices of micro-batches that are complete
  * @param isWhole    whether all are, and no further micro-batch has begun
  * @param handedOver whether the query resumes with its live sources
  */
final case class BackfillState(
    plan: Option[BackfillPlan],
    read: Int,
    isWhole: Boolean,
    handedOver: Boolean
)

/** A query that reads history first, and then resumes with live sources, on one checkpoint:
  *
  * {{{
  *   tables ------+                            one micro-batch per slice of time: [[SlicedTable]]
  *                +--> the user's query --> the user's sink
  *   live sources +                            from the next micro-batch on
  *
  *   offsets/29   {"tailrace_slices":30,"of":30}   becomes   -
  *                {"tailrace_slices":30,"of":30}             -
  * }}}
  *
  * After the last slice the sources' positions are taken out of Spark's log: a source without one begins where its own
  * options say. State, watermark and the number of the micro-batch stay. So the query can't tell history from live rows,
  * whatever its operators are, and neither can its sink.
  *
  *   - 1 Mar 00:00 to 30 Mar 24:00 are in the table, in 30 slices. `until` is 31 Mar 00:00
  *   - Micro-batch 29 reads the rows of 30 Mar. The watermark is then 30 Mar 23:59; impressions of the last half hour
  *     wait in the state for their clicks.
  *   - The positions are taken out, at once or by the next call.
  *   - Micro-batch 30 reads Kafka. A click of 31 Mar 00:05 finds its impression of 30 Mar 23:50.
  */
private[tailrace] final class Backfill(session: SparkSession, checkpoint: String) {
  private val root: Path = LiteralPath.of(checkpoint)
  private val conf = session.sessionState.newHadoopConf()
  private val file = new BackfillFile(root, conf)

  def state(): BackfillState = SparkCheckpoint.readable(checkpoint) {
    val log = new SparkCheckpoint(root, conf)
    def slices(batch: Option[Long]) =
      batch.flatMap(log.begun).fold(Seq.empty[SliceOffset])(_.sources.flatMap(SliceOffset.parse))
    val (begun, completed) = (log.begunBatches.lastOption, log.newestCompleted)
    val ofNewest = slices(begun)
    val read = if (begun == completed) ofNewest else slices(completed)
    val found = begun.flatMap(_ => file.find)
    val handedOver = begun.nonEmpty && ofNewest.isEmpty
    BackfillState(
      found,
      if (handedOver) found.fold(0)(_.starts.size) else read.map(_.read).minOption.getOrElse(0),
      // The micro-batch without rows that follows the last slice may have been killed.
      handedOver || (read.nonEmpty && read.forall(_.isLast) && begun == completed),
      handedOver
    )
  }

  /** Notes what the backfill reads, or refuses another one than that which has begun. One whose first micro-batch hasn't
    * begun has read nothing, and is replaced.
    *
    * @param dry whether it only refuses
    * @return the plan that has begun
    */
  def begin(asked: BackfillPlan, dry: Boolean): BackfillPlan = SparkCheckpoint.readable(checkpoint) {
    if (session.conf.getOption(SparkCheckpoint.NamedSources).exists(_.toBoolean))
      throw BackfillErrors.namedSources()
    // The live query may run.
    if (!dry && SparkCheckpoints.isInUse(session, root, conf) && !state().handedOver)
      throw RewriteErrors.inUse(checkpoint)
    val plan =
      if (new SparkCheckpoint(root, conf).begunBatches.nonEmpty)
        file.find.getOrElse(throw BackfillErrors.otherQuery(checkpoint))
      else if (dry) asked
      else file.write(asked)
    plan.difference(asked).foreach(difference => throw BackfillErrors.changed(checkpoint, difference))
    plan
  }

  /** Takes the positions in the tables out of Spark's log. Two batches' entries have them: the newest, and the one
    * before it, which Spark reads, too. The newest goes last, because it says whether this has been done.
    *
    * @return the state after it
    */
  def handOver(): BackfillState = SparkCheckpoint.readable(checkpoint) {
    val before = state()
    if (!before.handedOver) {
      val query = new StoppedQuery(session, checkpoint, "the hand-over of a backfill")
      query.alone {
        query.checkStopped()
        if (!before.isWhole)
          throw BackfillErrors.unfinished(checkpoint, before.read, before.plan.fold(0)(_.starts.size))
        if (!query.isNewestCommand) throw query.inUse
        Seq(query.completed - 1, query.completed).filter(query.spark.begunBatches.contains).foreach { batch =>
          query.checkAlone()
          query.checkUnchanged()
          query.spark.setOffsets(batch)(offset =>
            if (SliceOffset.parse(offset).isEmpty) offset else SparkCheckpoint.Unread
          )
        }
      }
    }
    state()
  }
}

private[tailrace] object Backfill {
  private val arguments = new Arguments("tailrace.backfill")

  /** A table as a stream.
    *
    * @param name  of the table, in the arguments
    * @param live  the stream that follows. Spark's log has a position for each source of it, and one for the table
    */
  def stream(
      name: String,
      table: DataFrame,
      live: DataFrame,
      time: String,
      slices: Slices,
      until: Option[Long]
  ): DataFrame = {
    val sources = SparkPlans.analyzed(live).collectLeaves().count(_.isStreaming)
    if (sources != 1) {
      val allowed =
        "a stream of one source: take each source as an argument, and make the union in the pipeline"
      throw arguments.invalid(s"streams['$name']", s"$sources sources", allowed)
    }
    val session = SparkPlans.session(table)
    val parts = new SlicedTable(table, time, slices, until, live.schema)
    SparkPlans.toFrame(session, FrameStream.of(session, parts))
  }
}

/** Refuses a history that the live query couldn't resume, before its first micro-batch.
  *
  * Spark numbers the sources of a query in the order of its plan, and their directories in the checkpoint have these
  * numbers. A [[SlicedTable]] has neither:
  *
  * {{{
  *   the pipeline   impressions    devices, a stream that is no argument
  *   history        -              sources/0
  *   live           sources/0      sources/1
  * }}}
  *
  * So impressions would begin with the files that devices have read.
  */
private[tailrace] object BackfillWriteCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit = {
    val sources = start.plan.collectLeaves().filter(_.isStreaming)
    if (sources.exists(FrameStream.isIn)) {
      sources.find(source => !FrameStream.isIn(source) && !isUnnumbered(source)).foreach { other =>
        throw BackfillErrors.otherSource(other.simpleString(MostFields))
      }
      if (!start.resumes) throw BackfillErrors.sink(start.sinkName)
    }
  }

  /** A recursion keeps its rows under its own name. */
  private def isUnnumbered(source: LogicalPlan): Boolean = source match {
    case relation: StreamingRelationV2 => relation.table.isInstanceOf[UnnumberedSource]
    case _ => false
  }

  private val MostFields = 10
}
