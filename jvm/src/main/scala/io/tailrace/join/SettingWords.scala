package io.tailrace.join

import scala.util.matching.Regex

import org.apache.spark.sql.types.StructType

import io.tailrace.common.Durations

/** What the error of a checkpoint says of settings that have changed: in the words of the call. */
private[tailrace] trait SettingWords extends Serializable {

  /** A sentence; none if another setting's says it.
    *
    * @param name of the setting in the checkpoint
    * @param was  in the checkpoint, and now in the query; none: it isn't there
    */
  def changed(name: String, was: Option[String], now: Option[String]): Option[String]

  /** @param why the query can't continue with it */
  def added(name: String, why: String): String

  /** Settings that say nothing if another one has changed. */
  def follow: Map[String, String] = Map.empty

  /** Why right columns can't be there again that the query had once, and lacked meanwhile.
    *
    * @param settings of the checkpoint
    * @param from     the right columns that it had last
    * @param areNamed whether it is known by name which sources come back
    */
  def returned(settings: Map[String, String], from: StructType, areNamed: Boolean): Seq[String] = Nil

  /** What it means that the columns of a side are others. */
  def columns(side: String, from: StructType, to: StructType): ColumnChanges.Told =
    ColumnChanges.tell(side, from, to)
}

private[tailrace] object SettingWords {
  private val Micros: Regex = """\b(\d{1,18}) microseconds\b""".r

  /** What arguments mean that a checkpoint has only if they are given. */
  private val unnamed =
    Map(JoinCheckpoint.Release -> "closed", JoinCheckpoint.ExactlyOne -> "False")

  /** A checkpoint has durations in microseconds, and booleans as the JVM writes them. */
  def text(setting: String): String = setting match {
    case "true" => "True"
    case "false" => "False"
    case other => Micros.replaceAllIn(other, found => Durations.words(found.group(1).toLong))
  }

  /** @param name as people call it, with its article or its quotes
    * @param verb of the past and of now
    */
  def sentence(
      name: String,
      was: Option[String],
      now: Option[String],
      verb: (String, String) = "was" -> "is"
  ): String = {
    val before = was.fold(s"${verb._1} not given")(text => s"${verb._1} '${SettingWords.text(text)}'")
    val after = now.fold(s"${verb._2} not given now")(text => s"${verb._2} now '${SettingWords.text(text)}'")
    s"$name $before and $after"
  }

  /** The last of the horizons is the window's end, which has a sentence of its own. */
  def horizons(was: Option[String], now: Option[String]): Option[String] = {
    def named(ends: Option[String]) = ends.map(_.split(", ").toSeq.init).filter(_.nonEmpty)
    val (before, after) = (named(was), named(now))
    Option.when(before != after)(
      sentence("`horizons`", before.map(_.mkString(", ")), after.map(_.mkString(", ")))
    )
  }

  /** The names of settings are those of arguments. */
  case object OfJoin extends SettingWords {
    override def changed(name: String, was: Option[String], now: Option[String]): Option[String] =
      if (name == JoinCheckpoint.Horizons) horizons(was, now)
      else Some(sentence(s"`$name`", was.orElse(unnamed.get(name)), now.orElse(unnamed.get(name))))

    override def added(name: String, why: String): String = s"`$name` is new: $why"
  }
}
