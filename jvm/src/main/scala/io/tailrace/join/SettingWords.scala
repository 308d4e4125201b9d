package io.tailrace.join

import scala.util.matching.Regex

import io.tailrace.common.Durations

/** The sentence of an error about a setting that has changed since a checkpoint was written, in the words of the call. */
private[tailrace] trait SettingWords {

  /** @param name of the setting in the checkpoint
    * @param was  in the checkpoint, and `now` in the query; none: it isn't there
    * @return none if the sentence of another setting says it
    */
  def changed(name: String, was: Option[String], now: Option[String]): Option[String]
}

private[tailrace] object SettingWords {
  private val Micros: Regex = """\b(\d{1,18}) microseconds\b""".r

  /** A checkpoint has durations in microseconds, and booleans as the JVM writes them. */
  def text(setting: String): String = setting match {
    case "true" => "True"
    case "false" => "False"
    case other => Micros.replaceAllIn(other, found => Durations.words(found.group(1).toLong))
  }

  /** @param name as people call it, with its article or its quotes
    * @param verb of the past and of the present
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

  /** The setting has the name of its argument.
    *
    * @param absent the value of the argument that the checkpoint doesn't name; none: it is not given
    */
  final case class Argument(absent: Option[String] = None) extends SettingWords {
    override def changed(name: String, was: Option[String], now: Option[String]): Option[String] =
      Some(sentence(s"`$name`", was.orElse(absent), now.orElse(absent)))
  }

  /** The last of the horizons is the window's end, which has a sentence of its own. */
  case object Horizons extends SettingWords {
    override def changed(name: String, was: Option[String], now: Option[String]): Option[String] = {
      def named(ends: Option[String]) = ends.map(_.split(", ").toSeq.init).filter(_.nonEmpty)
      val (before, after) = (named(was), named(now))
      Option.when(before != after)(
        sentence(s"`$name`", before.map(_.mkString(", ")), after.map(_.mkString(", ")))
      )
    }
  }
}
