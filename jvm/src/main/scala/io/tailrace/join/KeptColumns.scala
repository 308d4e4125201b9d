package io.tailrace.join

import org.apache.spark.sql.catalyst.util.quoteIdentifier

/** The columns that the state keeps of emitted left rows that may be amended, beside their keys and time, and since when. The labels of examples and the predicates of their sample need them:
  *
  * {{{
  *   batch 0    sample({"item = 5": 0.1})                        `item` from batch 0
  *   batch 7    sample({"item = 5": 0.1, "price > 9": 1.0})      `item`, `price` from batch 7
  * }}}
  *
  * Rows that were emitted before batch 7 have no price. Their amendments would be wrong, so they have none.
  */
private[join] final case class KeptColumns(names: Set[String], from: Long) {
  import KeptColumns.quoted

  /** Those of a start that needs these columns from this batch on. With fewer of them, nothing begins anew. */
  def next(needed: Set[String], batch: Long): KeptColumns =
    KeptColumns(needed, if (needed.subsetOf(names)) from else batch)

  /** As a checkpoint has it. */
  def text: String = s"${quoted(names)}${KeptColumns.From}$from"

  /** The consequence for earlier rows, for a warning; none: they are amended as ever. */
  def told(before: KeptColumns): Option[String] = Option.when(from != before.from)(
    s"those that were emitted have no ${quoted(names -- before.names)} and aren't amended any more"
  )
}

object KeptColumns {

  /** Its name among the settings of a checkpoint. It never changes. */
  val Setting = "amended rows have"
  private val From = " from batch "
  private val Name = "`((?:[^`]|``)*)`".r

  private def quoted(names: Set[String]): String =
    names.toSeq.sorted.map(quoteIdentifier).mkString(", ")

  private def read(text: String): KeptColumns = {
    val at = text.lastIndexOf(From)
    val names = Name.findAllMatchIn(text.take(at)).map(_.group(1).replace("``", "`")).toSet
    KeptColumns(names, text.drop(at + From.length).toLong)
  }

  /** @param settings of the checkpoint; without the setting, all emitted rows have the columns that are needed */
  private[join] def of(settings: Map[String, String], needed: Set[String]): KeptColumns =
    settings.get(Setting).fold(KeptColumns(needed, 0L))(read)

  /** Columns that are needed and that emitted rows lack. */
  def missing(settings: Map[String, String], needed: Set[String]): Set[String] =
    needed -- of(settings, needed).names

  /** True if rows that were emitted before this batch lack columns that are needed from it on. */
  def beginsIn(batch: Long, settings: Map[String, String]): Boolean =
    batch > 0 && settings.get(Setting).exists(read(_).from == batch)
}
