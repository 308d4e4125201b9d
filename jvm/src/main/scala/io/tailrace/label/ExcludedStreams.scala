package io.tailrace.label

import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.tailrace.BatchNotes

import io.tailrace.common.WatermarkRules
import io.tailrace.join.PlannedJoin

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

  /** How far a stream has been read, if it is excluded. */
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
