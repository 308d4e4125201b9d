package io.tailrace.examples

import org.apache.spark.sql.types.StructType

import io.tailrace.common.Side
import io.tailrace.join.{
  ColumnChanges,
  ColumnTexts,
  ColumnWords,
  JoinCheckpoint,
  LabelSettings,
  MissingSetting,
  PinnedSetting,
  SettingWords
}

/** The pinned settings of `tailrace.examples`, and errors about them in the words of its arguments. The settings of the
  * join below follow from those of the labels:
  *
  * {{{
  *   after      the longest window of a label              examples: click    its further keys, and its attribution
  *   on (left)  the keys that all labels have              right columns      a struct for each label
  * }}}
  */
private[examples] final class LabelWords(rules: Seq[LabelRule]) extends ColumnWords {
  import SettingWords.sentence

  /** @param ofJoin the settings of the join below
    * @param bound  of the labels and the sample, by their names
    */
  def pinned(ofJoin: Seq[PinnedSetting], bound: Map[String, String]): Seq[PinnedSetting] =
    ofJoin.map { setting =>
      setting.name match {
        case JoinCheckpoint.After =>
          worded(setting)(
            sentence("the longest `after` of a label", _, _) +
              of(_.joinWindow.after, "with `horizons` it can't change")
          )
        case JoinCheckpoint.Before =>
          worded(setting)(
            sentence("the longest `before` of a label", _, _) +
              of(_.joinWindow.before, "it can't be longer, nor change with `horizons`")
          )
        case JoinCheckpoint.LeftKeys =>
          worded(setting) { (was, now) =>
            val keys = sentence("the key columns that all labels have in common", was, now, "were" -> "are")
            keys + LabelWords.otherLabels(was, now).fold("")(": " + _)
          }
        case JoinCheckpoint.LeftTime => worded(setting)(sentence("`time` of the impressions", _, _))
        case JoinCheckpoint.Horizons =>
          setting.copy(words = SettingWords.Horizons(Some(setting.name), single = None))
        // They have the names of the impressions' ones.
        case JoinCheckpoint.RightKeys => setting.copy(follows = Some(JoinCheckpoint.LeftKeys))
        case _ => setting
      }
    } ++ bound.map { case (name, text) => ofExamples(name, text) }

  private def worded(setting: PinnedSetting)(
      text: (Option[String], Option[String]) => String
  ): PinnedSetting =
    setting.copy(words = (_, was, now) => Some(text(was, now)))

  private def ofExamples(name: String, text: String): PinnedSetting = {
    val setting = PinnedSetting.fixed(name, text)
    name match {
      case LabelWords.Label(label) =>
        worded(setting)(ofLabel(label, _, _)).copy(
          missing = MissingSetting.Unknown(_ => newcomer(label)),
          // A label has besides what the common keys leave of its own.
          follows = Option.when(rules.exists(_.name == label))(JoinCheckpoint.LeftKeys)
        )
      case LabelWords.Credits(label) =>
        worded(setting)(
          sentence(s"label '$label': `before`, `after` or `since`", _, _, "were" -> "are") + LabelWords.shared
        ).copy(
          missing = MissingSetting.Unknown(creditedBefore(label, _)),
          follows = Some(JoinCheckpoint.OfExamples + label)
        )
      case _ => setting
    }
  }

  /** The reason why a query can't resume with a label that its checkpoint lacks; none: it can. */
  private def newcomer(label: String): Option[String] =
    rules.find(_.name == label).filter(_.since.isEmpty).map { _ =>
      s"label '$label' is new: a label that comes later needs `since`, as rows that wait have none of its events"
    }

  /** The reason why a query can't resume with the credits of a label that its checkpoint lacks; none: it can. */
  private def creditedBefore(label: String, written: Map[String, String]): Option[String] = {
    val wasAttributed =
      written.get(JoinCheckpoint.OfExamples + label).exists(LabelSettings.parts(_)._2.nonEmpty)
    rules.find(_.name == label).filter(_.since.nonEmpty && wasAttributed).map { _ =>
      s"label '$label' has an attribution and `since`, and the checkpoint is of a release in which impressions before " +
        "`since` had a share of its events, in no row. With another name and a later `since` it is another label"
    }
  }

  /** The identity of a label. With an attribution, other parts look for it, too. */
  private def of(length: LabelRule => Long, why: String): String = {
    val longest = rules.maxBy(length)
    val rivals = if (longest.attribution.isEmpty) "" else ", whose attribution needs `before` + `after`"
    s", that of label '${longest.name}'$rivals: $why"
  }

  private def ofLabel(label: String, was: Option[String], now: Option[String]): String =
    if (label == LabelWords.Seed) sentence("`seed` of the sample", was, now)
    else {
      val (before, after) = (was.map(LabelSettings.parts), now.map(LabelSettings.parts))
      val changes = Seq(
        ("`on`, besides the common keys,", before.flatMap(_._1), after.flatMap(_._1)),
        ("`attribution`", before.flatMap(_._2), after.flatMap(_._2))
      ).collect { case (name, one, other) if one != other => sentence(name, one, other) }
      s"label '$label': ${changes.mkString(", ")}"
    }

  override def columns(side: Side, from: StructType, to: StructType): ColumnChanges.Told =
    if (side == Side.Left) ColumnChanges.tell("the impressions'", shown(from), shown(to))
    else {
      val names = (from.fieldNames ++ to.fieldNames).distinct.toSeq
      val each = names.map(name => ofEvents(name, rowOf(from, name), rowOf(to, name)))
      // The fields of a label's struct besides its events.
      val rest = ColumnChanges.tell(side.name, from, to).refused.filter(_ => each.forall(_.refused.isEmpty))
      ColumnChanges.Told(each.flatMap(_.refused) ++ rest, each.flatMap(_.told), each.flatMap(_.lost))
    }

  /** One with an attribution, as impressions that came meanwhile have no share in its events. And one that comes back with
    * a stream that may have been left out, too: of such a source Spark may read all again.
    */
  override def returned(settings: Map[String, String], from: StructType, areNamed: Boolean): Seq[String] = {
    val there = from.fieldNames.toSet
    rules
      .filter(rule => settings.contains(s"${JoinCheckpoint.OfExamples}${rule.name}") && !there(rule.name))
      .collect {
        case rule if rule.attribution.nonEmpty =>
          s"label '${rule.name}' has an attribution. It was left out, and can't come back: impressions that came meanwhile " +
            "would have no share in its events. With another name and `since` it is another label"
        case rule if !areNamed && !rule.beside.exists(there) =>
          s"label '${rule.name}' was left out, and comes back. If its stream was left out, too, Spark reads that again, and " +
            "events in the state would be there twice. With another name it is another label, without the events of " +
            "before. Which streams were left out is known of a query that has named its sources from its first start " +
            "on (`spark.readStream.name`)"
      }
  }

  private def ofEvents(
      label: String,
      from: Option[StructType],
      to: Option[StructType]
  ): ColumnChanges.Told = (from, to) match {
    case (Some(was), Some(now)) => ColumnChanges.tell(s"label '$label',", was, now)
    case (Some(_), None) => ColumnChanges.Told(Nil, Seq(s"label '$label' is left out"))
    case (None, Some(_)) => ColumnChanges.Told(Nil, Seq(s"label '$label' has no events of before"))
    case (None, None) => ColumnChanges.Told(Nil, Nil)
  }

  private def rowOf(columns: StructType, label: String): Option[StructType] =
    columns.find(_.name == label).map(_.dataType).collect { case struct: StructType =>
      struct(LabelUnion.RowPlace).dataType
    } collect { case row: StructType => row }

  private def shown(columns: StructType): StructType = StructType(
    columns.filterNot(_.name == LabelUnion.Hash)
  )
}

private object LabelWords {
  val Seed = "sample seed"

  private val shared =
    ". By what they were, examples that have come out have their shares of events. With another name and `since` it is " +
      "another label"

  /** The labels that change the common keys. */
  def otherLabels(was: Option[String], now: Option[String]): Option[String] =
    for {
      before <- was.flatMap(ColumnTexts.read)
      after <- now.flatMap(ColumnTexts.read)
      (more, fewer) = (after.map(_.name).diff(before.map(_.name)), before.map(_.name).diff(after.map(_.name)))
      text <- (more, fewer) match {
        case (Seq(), Seq()) => None
        case (_, Seq()) =>
          Some(
            s"a label without ${quoted(more)} can't be left out, nor get it. With where=\"false\" it stays, and " +
              "takes no events"
          )
        case (Seq(), _) => Some(s"a label without ${quoted(fewer)} can't be added, and none can lose it")
        case _ => Some("the labels' own keys have to stay as they were")
      }
    } yield text

  private def quoted(names: Seq[String]): String = names.map(name => s"'$name'").mkString(", ")

  /** The name of the label that a setting in a checkpoint belongs to. */
  sealed abstract class OfLabel(prefix: String) {
    def unapply(setting: String): Option[String] =
      Option.when(setting.startsWith(prefix))(setting.stripPrefix(prefix))
  }
  object Label extends OfLabel(JoinCheckpoint.OfExamples)
  object Credits extends OfLabel(JoinCheckpoint.Credits)
}
