package io.tailrace.testkit

import java.nio.file.{Files, Paths}
import java.util.regex.Pattern

import scala.jdk.CollectionConverters._
import scala.util.matching.Regex

/** A row of the table of files in `jvm/docs/formats.md`.
  *
  * @param path  with placeholders: `<checkpoint>`, `<batch>`
  * @param fates by the column: what becomes of a query that needs such a file
  */
final case class FileKind(path: String, fates: Map[FileKind.Harm, FileKind.Fate]) {
  import FileKind._

  private val pattern: Regex = {
    val parts = Placeholder.split(path).map(Pattern.quote)
    val holes = Placeholder.findAllIn(path).map(meaning).toSeq
    parts.zipAll(holes, "", "").map { case (part, hole) => part + hole }.mkString.r
  }

  /** @param file below the directory that has checkpoint and folder */
  def matches(file: String): Boolean = pattern.matches(file)

  /** Whether Tailrace reads it, and must say so when it can't. */
  def isOurs: Boolean = isRead && fates(Gone) != Sparks

  /** Whether a start reads it. */
  def isRead: Boolean = fates(Gone) != NotRead
}

object FileKind {

  /** What is done to a file: the columns of the table. */
  sealed trait Harm
  case object Gone extends Harm
  case object Changed extends Harm
  case object Anothers extends Harm
  val harms: Seq[Harm] = Seq(Gone, Changed, Anothers)

  /** What becomes of the query. */
  sealed trait Fate
  case object Stops extends Fate
  case object GoesOn extends Fate
  case object Sparks extends Fate
  case object NotRead extends Fate

  /** Nobody can know. */
  case object Undetected extends Fate

  /** Bytes of another number are found, others may not be. */
  case object StopsByLength extends Fate

  private val Placeholder = """<\w+>|\.\.\.""".r

  private def meaning(placeholder: String): String = placeholder match {
    case "<checkpoint>" => "checkpoint"
    case "<folder>" => "folder"
    case "<id>" => "[0-9a-f-]{32,36}"
    case "<unique>" => "[0-9a-f]{8}"
    case "<name>" | "<into>" => "[^/=]+"
    case "<window>" => """\d{8}T[\d.]+Z"""
    case "..." => ".*"
    case _ => """\d+"""
  }

  private def fate(text: String): Fate = text match {
    case "stops" => Stops
    case "continues" => GoesOn
    case "Spark" => Sparks
    case "not read" => NotRead
    case "undetected" => Undetected
    case "stops, if it has another length" => StopsByLength
  }

  /** All rows of the table, in its order. */
  lazy val all: Seq[FileKind] = {
    val lines = Files.readAllLines(Paths.get("jvm/docs/formats.md")).asScala.toSeq
    lines
      .dropWhile(!_.startsWith("## Kinds of files"))
      .drop(1)
      .takeWhile(!_.startsWith("## "))
      .map(_.split('|').map(_.trim).drop(1))
      .collect {
        case Array(path, _, fates @ _*) if path.startsWith("`<") =>
          FileKind(path.stripPrefix("`").stripSuffix("`"), harms.zip(fates.map(fate)).toMap)
      }
  }
}
