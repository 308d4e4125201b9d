package io.tailrace.label

import java.sql.Timestamp
import java.util.UUID

import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.tailrace.{SparkSession, StreamInputs, StreamWatermarks, StreamingRun}
import org.apache.spark.sql.types._

import io.tailrace.common.Policy
import io.tailrace.driver.{Heard, IdleClock, IdleTime, RunState}
import io.tailrace.explain.{LabelStreamFacts, WaitText}
import io.tailrace.join.{JoinErrors, OnStall, PlannedJoin}

/** The streams of the labels of examples, so that one that stalls can be named: the examples wait for all of them.
  *
  * @param progress the name in `observedMetrics` of the query's progress
  */
final case class LabelStreams(progress: String, streams: Seq[LabelStream])

/** The stream of one or several labels.
  *
  * @param watermarks the watermark nodes in it, by which its sources and its watermark are known in a query
  */
final case class LabelStream(labels: Seq[String], watermarks: Set[UUID], onStall: OnStall)

private[tailrace] object LabelStreams {
  private val stalls = new RunState[LabelStalls]

  /** The stalls of the operator in the run of this thread. */
  private[label] def of(exec: PlannedJoin, streams: LabelStreams): LabelStalls =
    stalls.of(exec.session, exec.workName)(new LabelStalls(streams.streams))

  /** A batch begins, in the thread of its query.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_EXAMPLES_STALLED
    */
  private[label] def begins(session: SparkSession, stalls: LabelStalls, batch: Long): Unit = {
    def hasRows(stream: LabelStream) = StreamInputs
      .below(
        session,
        {
          case watermark: EventTimeWatermark => stream.watermarks(watermark.nodeId)
          case _ => false
        }
      )
      .hasMore
    val hasInput = StreamInputs.all(session).hasNew
    val nowMs = StreamingRun.current(session).clock.ms
    stalls.begins(batch, nowMs, hasInput, hasRows, StreamWatermarks.current(session))
  }

  private val StreamSchema = new StructType()
    .add("labels", StringType)
    .add("watermark", TimestampType)
    .add("idleMs", LongType)
  val Schema: StructType = new StructType().add("heldBackBy", ArrayType(StreamSchema))

  private[label] def row(facts: Seq[LabelStreamFacts]): Row = {
    val stalled = facts.filter(_.isStalled).map { stream =>
      val watermark = stream.readTo.fold[Timestamp](null)(DateTimeUtils.toJavaTimestamp)
      new GenericRowWithSchema(Array(stream.labels.mkString(", "), watermark, stream.idleMs), StreamSchema)
    }
    new GenericRowWithSchema(Array(stalled), Schema)
  }
}

/** Measures for how long the stream of each label has been idle while others gave rows, in one run. A start begins
  * anew. Not for several threads.
  */
private[label] final class LabelStalls(streams: Seq[LabelStream]) extends Logging {
  private val parts = streams.map(new Part(_))
  private var last = -1L

  private final class Part(val stream: LabelStream) {
    val clock = new IdleClock(stream.onStall.afterMs)
    val idle = new IdleTime(clock)
    var facts = LabelStreamFacts(
      stream.labels,
      None,
      0L,
      isStalled = false,
      stream.onStall.policy.name,
      stream.onStall.afterMs
    )
  }

  def facts: Seq[LabelStreamFacts] = parts.map(_.facts)

  /** A batch begins.
    *
    * @param batch    one that has been seen already is left out
    * @param hasInput whether any source of the query has rows for it
    * @param hasRows  whether a stream has rows, in the batch or unread
    * @param times    the watermarks of the query's inputs, in milliseconds
    * @throws io.tailrace.common.TailraceStateException TAILRACE_EXAMPLES_STALLED
    */
  def begins(
      batch: Long,
      nowMs: Long,
      hasInput: Boolean,
      hasRows: LabelStream => Boolean,
      times: Map[UUID, Option[Long]]
  ): Unit = if (batch != last) {
    last = batch
    val furthest = times.values.flatten.maxOption
    parts.foreach { part =>
      val passed = part.clock.advance(nowMs, hasInput)
      part.idle.see(if (hasRows(part.stream)) Heard.Yes else Heard.No, passed)
      val ofStream = part.stream.watermarks.toSeq.map(times.getOrElse(_, None))
      val readTo = if (ofStream.contains(None)) None else ofStream.flatten.minOption
      // The others never wait for the one that is furthest.
      val isBehind = furthest.exists(most => readTo.forall(_ < most))
      val before = part.facts
      part.facts = before.copy(
        readTo = readTo.map(_ * 1000),
        idleMs = part.idle.ms,
        isStalled = isBehind && part.idle.isTooLong
      )
      if (part.facts.isStalled && !before.isStalled) logWarning(WaitText.labelStalled(part.facts))
    }
    parts
      .filter(part => part.facts.isStalled && part.stream.onStall.policy == Policy.Fail)
      .foreach(part => throw JoinErrors.labelStalled(part.facts))
  }
}
