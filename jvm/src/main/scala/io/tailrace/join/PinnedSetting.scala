package io.tailrace.join

import scala.util.matching.Regex

import org.apache.spark.sql.types.StructType

import io.tailrace.common.{Durations, Side}

/** One setting that a checkpoint pins, because it decides what the rows of the state mean.
  *
  * {{{
  *   setting         value of the query     missing in the checkpoint     may change
  *   how             left                   absent                        never
  *   after           30000000 microseconds  absent                        longer
  *   release_every   inherited              batch                         never
  *   left_partition  l_part                 unknown                       never
  *   left columns    id INT, t TIMESTAMP    absent                        as columns may
  * }}}
  *
  * @param name    in the checkpoint; a release never changes it
  * @param value   in this query
  * @param missing the value that a checkpoint without the setting implies
  * @param change  the direction in which a restart may change it
  * @param follows another setting: if that has changed, errors mention it and not this one
  * @param words   of errors
  */
private[tailrace] final case class PinnedSetting(
    name: String,
    value: PinnedValue,
    missing: MissingSetting = MissingSetting.Absent,
    change: SettingChange = SettingChange.Never,
    follows: Option[String] = None,
    words: SettingWords = SettingWords.Argument()
) {

  /** The name that people know. */
  def argument: String = words match {
    case SettingWords.Argument(_, Some(renamed)) => renamed
    case _ => name
  }

  /** The value in a new checkpoint. */
  def initial: Option[String] = value match {
    case PinnedValue.Fixed(text) => Some(text)
    case PinnedValue.Absent => None
    case PinnedValue.Inherited(initial) => Some(initial)
  }

  /** The value in a query that resumes.
    *
    * @param written in the checkpoint, or implied by it
    */
  def resumed(written: Option[String]): Option[String] = value match {
    case PinnedValue.Fixed(text) => Some(text)
    case PinnedValue.Absent => None
    case PinnedValue.Inherited(_) => written
  }
}

private[tailrace] object PinnedSetting {

  /** A setting that every query of the operator has. */
  def fixed(name: String, value: String): PinnedSetting = PinnedSetting(name, PinnedValue.Fixed(value))

  /** A setting that is written only if the query has it. */
  def optional(name: String, value: Option[String]): PinnedSetting =
    PinnedSetting(name, value.fold[PinnedValue](PinnedValue.Absent)(PinnedValue.Fixed(_)))

  def duration(name: String, micros: Long): PinnedSetting = fixed(name, text(micros))

  /** A duration as checkpoints have it. */
  def text(micros: Long): String = s"$micros microseconds"
}

/** The value of a setting in a query. */
private[tailrace] sealed trait PinnedValue

private[tailrace] object PinnedValue {
  final case class Fixed(text: String) extends PinnedValue

  /** The query lacks the setting, and a new checkpoint of it does, too. */
  case object Absent extends PinnedValue

  /** The user has left it to Tailrace: the checkpoint's value counts, and a new checkpoint gets this one. */
  final case class Inherited(initial: String) extends PinnedValue
}

/** The value that a checkpoint implies which lacks a setting. */
private[tailrace] sealed trait MissingSetting

private[tailrace] object MissingSetting {

  /** The query that has written it lacked the setting. */
  case object Absent extends MissingSetting

  /** It is of a release without the setting, which did the same as this value. */
  final case class Implied(text: String) extends MissingSetting

  /** It may be of any value: the checkpoint is pinned to the query's from this start on.
    *
    * @param refusal why the query can't resume nevertheless, by the settings of the checkpoint
    */
  final case class Unknown(refusal: Map[String, String] => Option[String] = _ => None) extends MissingSetting
}

/** The direction in which a setting may change at a restart.
  *
  * @param text in the documentation
  */
private[tailrace] sealed abstract class SettingChange(val text: String) {

  /** True if a query with the second value may resume a checkpoint with the first one. */
  def allows(was: Option[String], now: Option[String]): Boolean = (for {
    before <- was.flatMap(Durations.read)
    after <- now.flatMap(Durations.read)
  } yield allows(before, after)).getOrElse(false)

  protected def allows(was: Long, now: Long): Boolean
}

private[tailrace] object SettingChange {
  case object Never extends SettingChange("fixed") {
    override protected def allows(was: Long, now: Long): Boolean = false
  }

  case object Longer extends SettingChange("may be longer") {
    override protected def allows(was: Long, now: Long): Boolean = was < now
  }

  case object Shorter extends SettingChange("may be shorter") {
    override protected def allows(was: Long, now: Long): Boolean = now < was
  }

  case object LongerOrShorter extends SettingChange("may be longer or shorter") {
    override protected def allows(was: Long, now: Long): Boolean = was != now
  }

  /** Schemas are compared column by column ([[SchemaChange]]). Only if those of the checkpoint aren't known, their texts
    * have to be the same.
    */
  case object OfColumns extends SettingChange("as columns may") {
    override protected def allows(was: Long, now: Long): Boolean = false
  }
}

/** All settings that a checkpoint of a query pins.
  *
  * @param mayLack     names of settings, or what they begin with, that a checkpoint may have and its query no longer
  * @param columnWords of errors about columns
  */
private[tailrace] final case class PinnedSettings(
    all: Seq[PinnedSetting],
    mayLack: Seq[String] = Nil,
    columnWords: ColumnWords = ColumnWords.OfJoin
) {

  /** The settings of a new checkpoint. */
  def initial: Map[String, String] = valuesOf(all)(_.initial)

  /** The settings that the query has itself, of those that each release knows. */
  def own: Map[String, String] = valuesOf(all.filter(_.missing == MissingSetting.Absent))(_.resumed(None))

  private[join] def resume(written: Map[String, String]): ResumedSettings =
    new ResumedSettings(this, written)

  private[join] def valuesOf(settings: Seq[PinnedSetting])(
      value: PinnedSetting => Option[String]
  ): Map[String, String] = settings.flatMap(one => value(one).map(one.name -> _)).toMap
}

private[tailrace] object PinnedSettings {
  import JoinCheckpoint._

  /** The columns of any join. */
  def ofColumns(columns: JoinColumns): Seq[PinnedSetting] = Seq(
    PinnedSetting.fixed(LeftKeys, ColumnTexts.write(columns.leftKeys)),
    PinnedSetting.fixed(RightKeys, ColumnTexts.write(columns.rightKeys)),
    PinnedSetting.fixed(LeftTime, columns.leftTime.name),
    PinnedSetting.fixed(RightTime, columns.rightTime.name),
    PinnedSetting.fixed(LeftColumns, ColumnTexts.write(columns.left)).copy(change = SettingChange.OfColumns),
    PinnedSetting.fixed(RightColumns, ColumnTexts.write(columns.right)).copy(change = SettingChange.OfColumns)
  )
}

/** The settings of a query that resumes from a checkpoint, and the decision whether it may.
  *
  * @param written in the checkpoint
  */
private[join] final class ResumedSettings(pinned: PinnedSettings, written: Map[String, String]) {

  /** Settings of the checkpoint, with those that it implies. */
  val before: Map[String, String] = pinned.valuesOf(pinned.all) { setting =>
    setting.missing match {
      case MissingSetting.Implied(text) => Some(text)
      case _ => None
    }
  } ++ written

  val now: Map[String, String] = pinned.valuesOf(pinned.all)(one => one.resumed(before.get(one.name)))

  /** The settings of the checkpoint from this start on. Those that the query lacks stay: what they are about is there
    * again if they come back.
    */
  def bound: Map[String, String] = before.filter { case (name, _) => mayLack(name) } ++ now

  /** Names of durations that this start changes as they may change. */
  def durations: Set[String] =
    described.values
      .filter(one => one.change.allows(before.get(one.name), now.get(one.name)))
      .map(_.name)
      .toSet

  /** Sentences about what can't change.
    *
    * @param areColumnsKnown whether the columns of the checkpoint are known
    */
  def refused(areColumnsKnown: Boolean): Seq[String] = {
    val added = pinned.all.filter(one => !before.contains(one.name)).flatMap { one =>
      one.missing match {
        case MissingSetting.Unknown(refusal) => Some(one.name -> refusal)
        case _ => None
      }
    }
    val names = (before.keySet ++ now.keySet -- added.map(_._1))
      .filter(name => now.contains(name) || !mayLack(name))
    val changed = names
      .filter(name => before.get(name) != now.get(name))
      .map(setting)
      .filterNot(one => areColumnsKnown && one.change == SettingChange.OfColumns)
      .filterNot(one => durations(one.name))
    val changedNames = changed.map(_.name)
    changed.toSeq
      .filterNot(_.follows.exists(changedNames))
      .sortBy(_.name)
      .flatMap(one => one.words.changed(one.name, before.get(one.name), now.get(one.name))) ++
      added.filter { case (name, _) => now.contains(name) }.sortBy(_._1).flatMap(_._2(before))
  }

  private lazy val described = pinned.all.map(one => one.name -> one).toMap

  /** A checkpoint may have settings that this release doesn't know. */
  private def setting(name: String): PinnedSetting =
    described.getOrElse(name, PinnedSetting(name, PinnedValue.Absent))

  private def mayLack(name: String): Boolean = pinned.mayLack.exists(name.startsWith(_))
}

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

  /** The setting is an argument of the call.
    *
    * @param absent  the value of the argument that the checkpoint doesn't name; none: it is not given
    * @param renamed the argument, if its name has changed since the checkpoint's name was chosen
    */
  final case class Argument(absent: Option[String] = None, renamed: Option[String] = None)
      extends SettingWords {
    override def changed(name: String, was: Option[String], now: Option[String]): Option[String] =
      Some(sentence(s"`${renamed.getOrElse(name)}`", was.orElse(absent), now.orElse(absent)))
  }

  /** The last of the horizons is the window's end, which has a sentence of its own.
    *
    * {{{
    *   join(early="10 minutes")         `early` was '5 minutes' and is now '10 minutes'
    *                                    `horizons` was '5 minutes, 20 minutes' and `early` is now '10 minutes'
    *   join()                           `early` or `horizons` was '5 minutes' and is not given now
    * }}}
    *
    * @param argument the argument of the query that gives them; none: it gives none
    * @param single   the call's argument for a single one besides `horizons`; none: it has no such argument
    */
  final case class Horizons(argument: Option[String], single: Option[String]) extends SettingWords {
    override def changed(name: String, was: Option[String], now: Option[String]): Option[String] = {
      def named(ends: Option[String]) = ends.map(_.split(", ").toSeq.init).filter(_.nonEmpty)
      val (before, after) = (named(was), named(now))
      val isOne = before.forall(_.size == 1)
      val either = single.filter(_ => isOne).fold(s"`$name`")(one => s"`$one` or `$name`")
      // A checkpoint doesn't know the argument. A single one is taken for the query's.
      val former = if (isOne) argument.fold(either)(one => s"`$one`") else s"`$name`"
      val verb = argument.filter(one => s"`$one`" != former).fold("is")(one => s"`$one` is")
      val byEmit = before.exists(one => after.exists(other => isFirstOf(one, other) || isFirstOf(other, one)))
      val why = if (byEmit) ": of several, emit='defer' has only the first" else ""
      Option.when(before != after)(
        sentence(former, before.map(_.mkString(", ")), after.map(_.mkString(", ")), "was" -> verb) + why
      )
    }

    private def isFirstOf(one: Seq[String], several: Seq[String]) =
      one.size == 1 && several.size > 1 && one.head == several.head
  }
}

/** Errors' words for columns that have changed since a checkpoint was written. */
private[tailrace] trait ColumnWords {

  /** The consequences of other columns on a side. */
  def columns(side: Side, from: StructType, to: StructType): ColumnChanges.Told

  /** Reasons why right columns can't be there again that the query had once, and lacked meanwhile.
    *
    * @param settings of the checkpoint
    * @param from     the right columns that it had last
    * @param areNamed whether it is known by name which sources come back
    */
  def returned(settings: Map[String, String], from: StructType, areNamed: Boolean): Seq[String]
}

private[tailrace] object ColumnWords {
  case object OfJoin extends ColumnWords {
    override def columns(side: Side, from: StructType, to: StructType): ColumnChanges.Told =
      ColumnChanges.tell(side.name, from, to)

    override def returned(settings: Map[String, String], from: StructType, areNamed: Boolean): Seq[String] =
      Nil
  }
}
