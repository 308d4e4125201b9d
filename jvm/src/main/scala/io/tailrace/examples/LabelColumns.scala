package io.tailrace.examples

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructField

import io.tailrace.join.{ColumnWords, JoinColumns, LeftRowWriter, PinnedSetting}
import io.tailrace.label.{GroupChange, GroupForm, GroupWriter, JoinSettings, MatchBound, Matches}
import io.tailrace.state.RowMemory

/** A column for each label, out of a group of all labels ([[LabelUnion]]).
  *
  * {{{
  *   matches of (user 1, 12:00)   (12:03, click)  (12:20, click)  (12:30, buy)
  *   click, after = 10 minutes    [(12:03, click)]
  *   buy, after = 1 day           [(12:30, buy)]
  * }}}
  */
private[examples] final case class LabelColumns(rules: Seq[LabelRule]) extends GroupForm {
  override def text: String = s"labels=[${rules.map(_.text).mkString(", ")}]"

  // Which of them a label chooses is known when all are there: touches are among them.
  override def bound: MatchBound = MatchBound.None

  override def pinned(ofJoin: Seq[PinnedSetting], bound: Map[String, String]): Seq[PinnedSetting] =
    new LabelWords(rules).pinned(ofJoin, bound)

  override def mayShrink: Boolean = true

  override def columnWords: ColumnWords = new LabelWords(rules)

  override def size: Int = rules.map(_.fields.size).sum

  override def fields(into: String, payload: Seq[Attribute]): Seq[StructField] = rules.flatMap(_.fields)

  override def empty(columns: JoinColumns): Seq[Expression] =
    values { rule =>
      val none = Literal.create(Nil, rule.columnType)
      rule.since.fold[Expression](none) { since =>
        val start = Literal(since, columns.leftTime.dataType)
        If(LessThan(columns.leftTime, start), Literal(null, rule.columnType), none)
      }
    }

  /** A late right row is credited to no other. */
  override def alone(columns: JoinColumns): Seq[Expression] =
    values { rule =>
      val event = GetStructField(columns.payload(rule.place), LabelUnion.RowPlace)
      val ofRow = rule.row.fieldNames.zipWithIndex.toSeq.flatMap { case (name, i) =>
        Seq(Literal(name), GetStructField(event, i))
      }
      val credit =
        if (rule.isShared)
          Seq(
            Literal(LabelRule.Credit.name),
            Literal(Attribution.decimal(Attribution.Whole), LabelRule.Credit.dataType)
          )
        else Nil
      val one = Cast(CreateArray(Seq(CreateNamedStruct(ofRow ++ credit))), rule.columnType)
      If(IsNull(event), Literal.create(Nil, rule.columnType), one)
    }

  private def values(column: LabelRule => Expression): Seq[Expression] =
    rules.flatMap(rule => column(rule) +: rule.maxMatches.toSeq.map(_ => Literal(false)))

  override def writer(columns: JoinColumns, settings: JoinSettings, memory: RowMemory): GroupWriter =
    new LabelWriter(rules, columns, settings, memory)

  override def change(columns: JoinColumns): GroupChange = new LabelChange(rules, columns)
}

/** Compares the columns of all labels. */
private final class LabelChange(rules: Seq[LabelRule], columns: JoinColumns) extends GroupChange {
  private val now = rules.map(new LabelEvents(_, columns)).toArray
  private val before = rules.map(new LabelEvents(_, columns)).toArray
  private var changed = false
  private var gained = false

  override def isChanged: Boolean = changed
  override def hasGained: Boolean = gained

  override def compare(left: UnsafeRow, leftTime: Long, matches: Matches, earlier: Matches): Unit = {
    changed = false
    gained = false
    var i = 0
    while (i < now.length) {
      now(i).find(left, leftTime, matches)
      before(i).find(left, leftTime, earlier)
      if (!now(i).isSame(before(i))) {
        changed = true
        if (before(i).size == 0) gained = true
      }
      i += 1
    }
  }
}

/** Writes a row of examples: behind the left columns, the events of each label, and whether its cap has cut them. Events
  * are copied once, as their bytes in the state; only a shared credit makes another row of them.
  */
private[examples] final class LabelWriter(
    rules: Seq[LabelRule],
    columns: JoinColumns,
    settings: JoinSettings,
    memory: RowMemory
) extends GroupWriter(columns, settings, memory) {
  private val labels = rules.map(new LabelEvents(_, columns)).toArray
  private val isCapped = rules.map(_.maxMatches.nonEmpty).toArray
  private var size = 0
  private var leftOut = 0

  override def lastSize: Int = size
  override def lastLeftOut: Int = leftOut

  override protected def find(left: UnsafeRow, leftTime: Long, matches: Matches): Long = {
    size = 0
    leftOut = 0
    var bytes = 0L
    var i = 0
    while (i < labels.length) {
      val label = labels(i)
      label.find(left, leftTime, matches)
      if (!label.isNull) {
        bytes += LeftRowWriter.arrayBytes(label.size) + label.bytes
        size += label.size
        leftOut += label.leftOut
      }
      i += 1
    }
    bytes
  }

  override protected def writeFound(at: Int): Unit = {
    var column = 0
    var end = at
    var i = 0
    while (i < labels.length) {
      val label = labels(i)
      if (label.isNull) writeNull(column)
      else {
        beginArray(end, label.size)
        var event = 0
        while (event < label.size) {
          addElement(event, label.base(event), label.offset(event), label.length(event))
          event += 1
        }
        end = endArray(column)
      }
      column += 1
      if (isCapped(i)) {
        putFlag(column, !label.isNull && label.leftOut > 0)
        column += 1
      }
      i += 1
    }
  }
}
