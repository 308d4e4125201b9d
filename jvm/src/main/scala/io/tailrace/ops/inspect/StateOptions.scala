package io.tailrace.ops.inspect

import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.tailrace.common.{Errors, TailraceAnalysisException}

/** The options of `tailrace-state`.
  *
  * @param path     the checkpoint
  * @param of       the contents that are read
  * @param version  that of the newest completed batch by default
  * @param from     the version that it is compared with
  * @param operator number or name of an operator
  */
private[inspect] final case class StateOptions(
    path: String,
    of: StateContent,
    version: Option[Long],
    from: Option[Long],
    operator: Option[String]
)

private[inspect] object StateOptions {
  private val Known = Set("path", "of", "version", "from_version", "operator")

  def read(options: CaseInsensitiveStringMap): StateOptions = {
    import scala.jdk.CollectionConverters._
    options.keySet.asScala.find(!Known(_)).foreach { other =>
      throw invalid(
        other,
        options.get(other),
        s"left out; the options are ${Known.-("path").toSeq.sorted.mkString(", ")}"
      )
    }
    def text(option: String) = Option(options.get(option))
    def number(option: String) = text(option).map { value =>
      value.toLongOption.getOrElse(throw invalid(option, value, "a whole number"))
    }
    val path =
      text("path").getOrElse(throw invalid("path", "", "the checkpoint of a query: .load(CHECKPOINT)"))
    val of = text("of").fold[StateContent](StateContent.Rows) { name =>
      StateContent.all
        .find(_.name == name.toLowerCase)
        .getOrElse(throw invalid("of", name, s"one of ${StateContent.all.map(_.name).mkString(", ")}"))
    }
    val (version, from) = (number("version"), number("from_version"))
    from.foreach { before =>
      if (of != StateContent.Rows)
        throw invalid("from_version", before.toString, "left out unless `of` is rows")
      if (version.exists(_ < before))
        throw invalid("from_version", before.toString, s"at most `version`, ${version.get}")
    }
    StateOptions(path, of, version, from, text("operator"))
  }

  def invalid(option: String, value: String, allowed: String): TailraceAnalysisException =
    Errors.optionInvalid("""spark.read.format("tailrace-state")""", option, value, allowed)
}

/** The contents of a query's operators, of which the format shows one at a time.
  *
  * @param name of the option `of`
  */
private[inspect] sealed abstract class StateContent(val name: String)

private[inspect] object StateContent {
  case object Rows extends StateContent("rows")
  case object Marks extends StateContent("marks")
  case object Hosts extends StateContent("hosts")
  case object Partitions extends StateContent("partitions")
  case object InFlight extends StateContent("rows_in_flight")

  val all: Seq[StateContent] = Seq(Rows, Marks, Hosts, Partitions, InFlight)
}
