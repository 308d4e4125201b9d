package io.tailrace.state

import java.util.UUID

import scala.util.matching.Regex

/** The names of the files of one partition's state:
  *
  * {{{
  *   7.1-<unique>.manifest    version 7, made by a first attempt       checkpoint format 1 of Spark
  *   7_<id>.manifest          version 7, by the attempt of that id     checkpoint format 2
  *   7.manifest               version 7, of an earlier release         checkpoint format 1
  *   7-<unique>.run           a run of its own, by the batch that made version 7, or compacted while it ran
  * }}}
  *
  * A run in a manifest's file has its name and a number: `7_<id>.manifest#0`. So a manifest's file may be
  * needed for its runs long after its version. No other attempt may write over it, and each has its own name.
  */
object StateFileNames {
  private val Manifest = """(\d+)(?:\.(\d+)-.+|_.+)?\.manifest""".r
  private val OfRun = """(\d+)-.+\.run""".r

  def run(version: Long): String = s"$version-${UUID.randomUUID}.run"

  /** @param attempt a later attempt's is greater. Of equal ones either counts */
  def manifest(version: Long, attempt: Int): String = s"$version.$attempt-${UUID.randomUUID}.manifest"

  /** The manifest of the attempt that Spark knows by an id. */
  def manifestOf(version: Long, id: String): String = s"${version}_$id.manifest"

  /** A run in a manifest's file. */
  def inline(manifest: String, number: Int): String = s"$manifest#$number"

  def isInline(run: String): Boolean = run.contains('#')

  /** The file that a run is in. */
  def fileOf(run: String): String = run.takeWhile(_ != '#')

  /** The version that was being made when the run was written. */
  def runVersion(run: String): Option[Long] = {
    val file = fileOf(run)
    versionIn(file, OfRun).orElse(manifestVersion(file))
  }

  def manifestVersion(file: String): Option[Long] = versionIn(file, Manifest)

  /** The attempt that has made a version without an id; 0 of an earlier release. */
  def attempt(manifest: String): Option[Int] = manifest match {
    case Manifest(_, number) if !manifest.contains('_') => Some(Option(number).fold(0)(_.toInt))
    case _ => None
  }

  /** True if another attempt may write over the manifest, as in an earlier release. */
  def isReplaceable(manifest: String): Boolean = attempt(manifest).contains(0)

  private def versionIn(name: String, pattern: Regex): Option[Long] =
    pattern.unapplySeq(name).map(_.head.toLong)
}
