package io.tailrace.windows

import java.time.Instant
import java.time.temporal.ChronoUnit

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** The completeness of a window when it closed. It is the content of `_SUCCESS`, see `jvm/docs/formats.md`.
  * Times are microseconds.
  *
  * @param rows         the number of rows in the window
  * @param expected     the number of hosts of all sources
  * @param passed       how many hosts have been read up to the window's end
  * @param missing      the other hosts, those that lag most first; only some of them if there are many
  * @param completeness the share of hosts that the query waits for, over all its sources
  * @param low          the low watermark that has closed the window
  */
final case class WindowReport(
    start: Long,
    end: Long,
    rows: Long,
    expected: Long,
    passed: Long,
    missing: Seq[MissingHost],
    completeness: String,
    low: Long,
    closedAt: Long,
    sources: Seq[SourcePart]
)

/** @param progress how far the host's log has been read; none if no row has been read */
final case class MissingHost(source: String, host: String, progress: Option[Long]) {

  /** @param end of the window */
  def lagSeconds(end: Long): Option[Double] = progress.map { p =>
    val lag = end - p
    val overflows = ((end ^ p) & (end ^ lag)) < 0
    (if (overflows) end.toDouble - p.toDouble else lag.toDouble) / 1e6
  }
}

/** The part of a report that is about one source.
  *
  * @param rosterVersion none without a roster
  */
final case class SourcePart(
    source: String,
    completeness: String,
    expected: Long,
    passed: Long,
    rosterVersion: Option[String]
)

object WindowReport {
  private val Format = 2
  private val OldestFormat = 1
  private val MicrosPerSecond = 1000000L
  private val json = new ObjectMapper

  def encode(report: WindowReport): String = {
    val root = json.createObjectNode().put("format", Format)
    root.put("window_start", time(report.start)).put("window_end", time(report.end)).put("rows", report.rows)
    root.put("expected", report.expected).put("passed", report.passed)
    val missing = root.putArray("missing")
    report.missing.foreach { host =>
      val one = missing.addObject().put("source", host.source).put("host", host.host)
      one.put("progress", host.progress.map(time).orNull)
      host.lagSeconds(report.end).foreach(one.put("lag_seconds", _))
    }
    root.put("completeness", report.completeness).put("low_watermark", time(report.low))
    root.put("closed_at", time(report.closedAt))
    val sources = root.putArray("sources")
    report.sources.foreach { s =>
      val one = sources.addObject().put("source", s.source).put("completeness", s.completeness)
      one.put("expected", s.expected).put("passed", s.passed).put("roster_version", s.rosterVersion.orNull)
    }
    json.writeValueAsString(root) + "\n"
  }

  /** @return none if the text is no report, such as the empty `_SUCCESS` of another writer */
  def decode(text: String): Option[WindowReport] =
    try
      json.readTree(text) match {
        case root: ObjectNode if isKnown(root.path("format").asInt) => Some(read(root))
        case _ => None
      }
    catch { case NonFatal(_) => None }

  private def isKnown(format: Int): Boolean = format >= OldestFormat && format <= Format

  private def read(root: JsonNode): WindowReport =
    WindowReport(
      micros(root.get("window_start")),
      micros(root.get("window_end")),
      root.get("rows").asLong,
      root.get("expected").asLong,
      root.get("passed").asLong,
      root.get("missing").elements.asScala.toSeq.map { host =>
        val progress = Option(host.get("progress")).filterNot(_.isNull).map(micros)
        MissingHost(host.get("source").asText, host.get("host").asText, progress)
      },
      root.get("completeness").asText,
      micros(root.get("low_watermark")),
      micros(root.get("closed_at")),
      root.get("sources").elements.asScala.toSeq.map { s =>
        val (expected, passed) = (s.get("expected").asLong, s.get("passed").asLong)
        // Format 1 has none.
        val roster = Option(s.get("roster_version")).filterNot(_.isNull).map(_.asText)
        SourcePart(s.get("source").asText, s.get("completeness").asText, expected, passed, roster)
      }
    )

  private def time(micros: Long): String = Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString

  /** Reads all times that [[time]] writes. `Instant` computes differences in nanoseconds, which overflow
    * before 1677 and after 2262.
    */
  private def micros(node: JsonNode): Long = {
    val instant = Instant.parse(node.asText)
    // The second of Long.MinValue, in microseconds, is no long.
    val (second, nanos) =
      if (instant.getEpochSecond < 0) (instant.getEpochSecond + 1, instant.getNano - 1000000000)
      else (instant.getEpochSecond, instant.getNano)
    Math.addExact(Math.multiplyExact(second, MicrosPerSecond), (nanos / 1000).toLong)
  }
}
