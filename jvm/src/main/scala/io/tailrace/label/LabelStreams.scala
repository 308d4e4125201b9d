package io.tailrace.label

import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.sql.Timestamp
import java.util.UUID

import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.tailrace.{
  BatchNotes,
  StreamInputs,
  StreamWatermarks,
  StreamingBatch,
  StreamingRun
}
import org.apache.spark.sql.types._

import io.tailrace.common.{Policy, WatermarkRules}
import io.tailrace.driver.{Heard, IdleClock, IdleTime, InputWatermarks, RunState}
import io.tailrace.explain.{LabelStreamFacts, StreamKind, WaitText}
import io.tailrace.join.{JoinErrors, OnStall, PlannedJoin}

/** The streams that the rows of a join wait for, so that one that stalls can be named, end the query, or be excluded.
  *
  * @param progress the name in `observedMetrics` of the query's progress; none: it isn't there
  */
final case class LabelStreams(progress: Option[String], streams: Seq[LabelStream]) {

  /** True if the watermark may advance without one of them. */
  def mayExclude: Boolean = streams.exists(_.onStall.policy == Policy.Exclude)

  /** In a batch job no stream stalls. Its rows have the same columns. */
  def isNeeded(isStreaming: Boolean): Boolean = isStreaming || mayExclude
}

/** The stream of one or several labels, of features, or of a side of a join.
  *
  * @param labels     their names
  * @param watermarks the watermark nodes in it, by which its sources and its watermark are known in a query
  * @param after      a left row is complete when the stream has been read this far after it, in microseconds; none: left
  *                   rows don't depend on it
  */
final case class LabelStream(
    labels: Seq[String],
    watermarks: Set[UUID],
    onStall: OnStall,
    kind: StreamKind = StreamKind.Label,
    after: Option[Long] = None
)

private[tailrace] object LabelStreams {
  private val stalls = new RunState[LabelStalls]

  /** The stalls of the operator in the run of this thread. */
  private[label] def of(exec: PlannedJoin, streams: LabelStreams): LabelStalls =
    stalls.of(exec.session, exec.workName)(new LabelStalls(streams.streams))

  /** A batch begins, in the thread of its query. From its end on, streams that are excluded don't hold the watermark back.
    *
    * @return left rows after this time are emitted without an excluded stream; none: there is none
    * @throws io.tailrace.common.TailraceStateException TAILRACE_EXAMPLES_STALLED, TAILRACE_JOIN_STALLED
    */
  private[label] def begins(exec: PlannedJoin, streams: LabelStreams): Option[Long] = {
    val session = exec.session
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
    val stalls = of(exec, streams)
    val batch = StreamingBatch.current(session)
    val note = if (streams.mayExclude) ExcludedStreams.of(exec, batch.batchId) else ExcludedStreams.None
    val times = StreamWatermarks.current(session)
    stalls.begins(batch.batchId, nowMs, hasInput, hasRows, times, note, batch.watermarkMs)
    // Without those that the batch's entry doesn't have yet: a start behind this batch knows what that says, and its
    // watermark.
    val excluded = stalls.excludedNodes(note.of(_).nonEmpty)
    stalls.target(times, excluded).foreach(StreamWatermarks.raise(session, excluded, _))
    note.incompleteAfter(streams.streams)
  }

  /** Notes for the batch that Spark is making which streams are excluded. Spark asks when the tasks of the batch before
    * have run.
    *
    * @return whether the watermark would move on if that batch ran
    */
  private[label] def note(exec: PlannedJoin, streams: LabelStreams): Boolean = streams.mayExclude && {
    val stalls = of(exec, streams)
    stalls.see(InputWatermarks.of(exec.session))
    ExcludedStreams.add(exec, stalls.excluded)
    stalls.isBehind(StreamWatermarks.current(exec.session))
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

/** Measures for how long each stream has been idle while others gave rows, in one run, and decides which of them are
  * excluded. A start begins anew, with the streams that were excluded by its first batch. Not for several threads.
  *
  * {{{
  *   clicks      12:00   12:10   12:20   12:30   12:40    their watermarks at the end of a batch
  *   orders      12:00   -       -       -       12:35    idle for too long when the second batch begins
  *   noted       -       -       orders  orders  orders   in the entries of the batches
  *   query       12:00   12:00   12:10   12:20   12:30    one batch behind the clicks while the orders are excluded
  *
  *   orders have reached 12:35: they count again, from the next batch on
  * }}}
  */
private[label] final class LabelStalls(streams: Seq[LabelStream]) extends Logging {
  private val parts = streams.map(new Part(_))
  private var last = -1L
  private var own = Map.empty[UUID, Long]

  private final class Part(val stream: LabelStream) {
    val clock = new IdleClock(stream.onStall.afterMs)
    val idle = new IdleTime(clock)
    var isExcluded = false
    var facts = LabelStreamFacts(
      stream.labels,
      None,
      0L,
      isStalled = false,
      stream.onStall.policy.name,
      stream.onStall.afterMs,
      stream.kind
    )

    def mayBeExcluded: Boolean = stream.onStall.policy == Policy.Exclude

    /** The time up to which it has been read, in milliseconds. While it is excluded, Spark's tracker has a later time. */
    def readTo(times: Map[UUID, Option[Long]]): Option[Long] = {
      val nodes = stream.watermarks.toSeq
      val known = if (mayBeExcluded) nodes.map(own.get) else nodes.map(times.getOrElse(_, None))
      if (known.contains(None)) None else known.flatten.minOption
    }
  }

  def facts: Seq[LabelStreamFacts] = parts.map(_.facts)

  /** The streams that are excluded, with how far they have been read, in milliseconds; none: not at all. */
  def excluded: Seq[(LabelStream, Option[Long])] =
    parts.filter(_.isExcluded).map(part => part.stream -> part.readTo(Map.empty))

  /** The watermark nodes of the excluded streams for which a condition holds. */
  def excludedNodes(isMeant: LabelStream => Boolean = _ => true): Set[UUID] =
    parts.filter(part => part.isExcluded && isMeant(part.stream)).flatMap(_.stream.watermarks).toSet

  /** The watermark of the other streams, in milliseconds; none if nobody is excluded, or they have none. */
  def target(times: Map[UUID, Option[Long]], excluded: Set[UUID]): Option[Long] = {
    val others = times.filterNot { case (node, _) => excluded(node) }.values.toSeq
    if (excluded.isEmpty || others.contains(None)) None else others.flatten.minOption
  }

  /** True if an excluded stream still holds the watermark behind the others. */
  def isBehind(times: Map[UUID, Option[Long]]): Boolean = {
    val excluded = excludedNodes()
    target(times, excluded).exists(others => excluded.exists(times.getOrElse(_, None).forall(_ < others)))
  }

  /** The tasks of a batch have run.
    *
    * @param seen the watermark of each node by the rows of the batch, in milliseconds
    */
  def see(seen: Map[UUID, Option[Long]]): Unit = seen.foreach { case (node, time) =>
    time.foreach(ms => own += node -> own.get(node).fold(ms)(Math.max(_, ms)))
  }

  /** A batch begins.
    *
    * @param batch    one that has been seen already is left out
    * @param hasInput whether any source of the query has rows for it
    * @param hasRows  whether a stream has rows, in the batch or unread
    * @param times    the watermarks of the query's inputs, in milliseconds
    * @param note     the streams that are excluded by the batch's watermark
    * @param queryMs  that watermark, in milliseconds
    * @throws io.tailrace.common.TailraceStateException TAILRACE_EXAMPLES_STALLED, TAILRACE_JOIN_STALLED
    */
  def begins(
      batch: Long,
      nowMs: Long,
      hasInput: Boolean,
      hasRows: LabelStream => Boolean,
      times: Map[UUID, Option[Long]],
      note: ExcludedStreams = ExcludedStreams.None,
      queryMs: Long = 0L
  ): Unit = if (batch != last) {
    if (last < 0) restore(note, queryMs)
    last = batch
    val excluded = excludedNodes()
    val furthest = times.collect { case (node, Some(ms)) if !excluded(node) => ms }.maxOption
    val stalled = parts.filter { part =>
      val passed = part.clock.advance(nowMs, hasInput)
      part.idle.see(if (hasRows(part.stream)) Heard.Yes else Heard.No, passed)
      val readTo = part.readTo(times)
      // The others never wait for the one that is furthest.
      val isBehind = furthest.exists(most => readTo.forall(_ < most))
      val before = part.facts
      val isStalled = isBehind && part.idle.isTooLong
      part.facts = before.copy(
        readTo = readTo.map(_ * 1000),
        idleMs = part.idle.ms,
        isStalled = isStalled && !part.mayBeExcluded
      )
      if (part.facts.isStalled && !before.isStalled) logWarning(WaitText.labelStalled(part.facts))
      isStalled
    }
    exclude(stalled.filter(_.mayBeExcluded), times, queryMs)
    parts
      .filter(part => part.facts.isStalled && part.stream.onStall.policy == Policy.Fail)
      .foreach { part =>
        throw if (part.stream.kind == StreamKind.JoinSide) JoinErrors.sideStalled(part.facts)
        else JoinErrors.labelStalled(part.facts)
      }
  }

  /** Excludes those that hold the watermark of all others back, until they have been read as far as the query. */
  private def exclude(stalled: Seq[Part], times: Map[UUID, Option[Long]], queryMs: Long): Unit = {
    val others = target(times, excludedNodes() ++ stalled.flatMap(_.stream.watermarks))
    val holding = stalled.filter(part => others.exists(ms => part.readTo(times).forall(_ < ms)))
    parts.filter(_.mayBeExcluded).foreach { part =>
      val isInTime = part.readTo(times).exists(_ >= queryMs)
      if (part.isExcluded && isInTime && !holding.contains(part)) {
        part.isExcluded = false
        logInfo(s"The watermark waits for the stream of ${part.stream.labels.mkString(", ")} again")
      } else if (!part.isExcluded && holding.contains(part)) {
        part.isExcluded = true
        logWarning(WaitText.streamExcluded(part.facts))
      }
    }
  }

  /** Spark forgets the watermarks of streams. Those that count have held the query's back, so they are as far as it is. */
  private def restore(note: ExcludedStreams, queryMs: Long): Unit =
    parts.filter(_.mayBeExcluded).foreach { part =>
      val known = note.of(part.stream)
      part.isExcluded = known.nonEmpty
      known.getOrElse(Option.when(queryMs > 0)(queryMs)).foreach { ms =>
        part.stream.watermarks.foreach(node => own += node -> ms)
      }
    }
}

/** The streams without which the watermark of a batch was computed, as its note in Spark's offset log has them: the same
  * whenever it runs. See [[BatchNotes]].
  *
  * {{{
  *   buy=1772366400000&gift%20card=     the stream of `buy` has been read up to there, that of `gift card` not at all
  * }}}
  *
  * Spark doesn't ask before the first batch of a run, so that has no note, and no other watermark than the batch before:
  * the latest note holds.
  *
  * @param readTo by label, in milliseconds
  */
private[label] final case class ExcludedStreams(readTo: Map[String, Option[Long]]) {

  /** The time up to which a stream has been read, if it is excluded. */
  def of(stream: LabelStream): Option[Option[Long]] = {
    val found = stream.labels.flatMap(readTo.get)
    Option.when(found.nonEmpty)(if (found.contains(None)) None else found.flatten.minOption)
  }

  /** Left rows after this time are emitted without one of them; none: all rows that are emitted have all streams. */
  def incompleteAfter(streams: Seq[LabelStream]): Option[Long] =
    streams
      .flatMap(stream => of(stream).zip(stream.after))
      .map { case (ms, after) => JoinWindow(0, after).leftExpiry(WatermarkRules.ofMillis(ms)) }
      .minOption
}

private[label] object ExcludedStreams {
  val None: ExcludedStreams = ExcludedStreams(Map.empty)

  private def key(exec: PlannedJoin): String = s"tailrace.excluded.${exec.workName}"

  /** @param streams with how far they have been read, in milliseconds */
  def add(exec: PlannedJoin, streams: Seq[(LabelStream, Option[Long])]): Unit =
    BatchNotes.add(exec.session, key(exec), encode(streams))

  /** Those of a batch. */
  def of(exec: PlannedJoin, batch: Long): ExcludedStreams =
    BatchNotes.latest(exec.session, batch, key(exec)).fold(None)(decode)

  private[label] def encode(streams: Seq[(LabelStream, Option[Long])]): String =
    (for {
      (stream, ms) <- streams
      label <- stream.labels
    } yield s"${URLEncoder.encode(label, UTF_8)}=${ms.fold("")(_.toString)}").mkString("&")

  private[label] def decode(text: String): ExcludedStreams = ExcludedStreams(
    text
      .split('&')
      .toSeq
      .filter(_.nonEmpty)
      .map { one =>
        val (label, ms) = one.splitAt(one.indexOf('='))
        URLDecoder.decode(label, UTF_8) -> ms.drop(1).toLongOption
      }
      .toMap
  )
}
