package io.tailrace.windows

import org.apache.hadoop.fs.Path

import io.tailrace.watermark.{Completeness, ProgressSettings, ServerSettings}

/** How windows land.
  *
  * @param into    the column that directories of windows are named after
  * @param missing hosts that a report names at most
  * @param sources the accurate watermarks below
  * @param server  the watermark server whose global low watermark closes windows; none: the query's own
  */
final case class LandingSettings(
    path: String,
    windows: Windows,
    into: String,
    missing: Int,
    sources: Seq[ProgressSettings],
    server: Option[SinkServer]
) {

  /** The share of hosts that the sources ask for together. */
  def completeness: Completeness = sources.map(_.completeness).foldLeft(Completeness.Whole)(_ andThen _)

  /** The greatest delay of a source, in microseconds. */
  def delay: Long = sources.map(_.delayMs).max * 1000
}

/** @param settings  its operator is the sink's name
  * @param upstreams the operators whose rows the sink writes, until a batch shows which of the query they are
  * @param ofSources whether these are the query's sources and nothing else
  * @param isGiven   whether the user has named them: they stand
  */
final case class SinkServer(
    settings: ServerSettings,
    upstreams: Seq[String],
    ofSources: Boolean,
    isGiven: Boolean
)

/** Where everything is below the folder. Readers of tables pass over what begins with an underscore. */
final class LandingPaths(val folder: Path, into: String) {
  private val own = new Path(folder, "_tailrace")
  val settings = new Path(own, "folder")
  val batches = new Path(own, "batches")
  val closed = new Path(own, "closed")
  val staging = new Path(own, "staging")

  def window(start: Long): Path = new Path(folder, LandingPaths.window(into, start))
  def marker(start: Long): Path = new Path(window(start), "_SUCCESS")
  def late: Path = new Path(folder, LandingPaths.Late)
}

object LandingPaths {

  /** Rows that came when their window was closed, by window. */
  val Late = "_late"

  /** Rows without an event time. */
  val Untimed = "_untimed"

  /** @return the directory's name, as other tools write partitions */
  def window(into: String, start: Long): String = s"$into=${WindowName.of(start)}"
}
