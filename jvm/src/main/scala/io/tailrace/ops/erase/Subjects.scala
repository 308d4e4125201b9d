package io.tailrace.ops.erase

import java.util.Arrays

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.{Resolver, UnresolvedAttribute, UnresolvedExtractValue}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{ComputeCurrentTime, ReplaceExpressions}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types.{DataType, StringType, StructField}

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{Errors, Side, TailraceAnalysisException, TailraceStateException}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.ops.inspect.{StateColumns, StateDecoder}
import io.tailrace.ops.rewrite.{JoinState, RowNumbers, RowRoute, RowRoutes}
import io.tailrace.plan.Columns
import io.tailrace.state._

/** The rows that a user wants erased: those of a condition, or of the subjects of a table. */
private[erase] trait Subjects {

  /** As the user has named them, for errors. */
  def text: String

  /** The names of the columns that they are known by. */
  def names: Seq[Seq[String]]

  /** @param columns of a row
    * @param named   those that the names mean
    */
  def test(columns: Seq[Attribute], named: Seq[Expression]): RowTest
}

/** @param text a condition of Spark SQL */
private[erase] final class SubjectsOfCondition(session: SparkSession, override val text: String)
    extends Subjects {
  private val parsed = session.sessionState.sqlParser.parseExpression(text)

  override val names: Seq[Seq[String]] =
    parsed.collect { case name: UnresolvedAttribute => name.nameParts }.distinct
  if (names.isEmpty) throw EraseErrors.conditionInvalid(text, "it names no column")

  override def test(columns: Seq[Attribute], named: Seq[Expression]): RowTest = {
    val byName = names.zip(named).toMap
    val onColumns = parsed.transformUp { case name: UnresolvedAttribute => byName(name.nameParts) }
    val resolved = SparkPlans.analyzed(SparkPlans.toFrame(session, Filter(onColumns, LocalRelation(columns))))
    val condition = executable(resolved) match {
      case Filter(condition, _) => condition
      case other => throw EraseErrors.conditionInvalid(text, s"it is ${other.nodeName}")
    }
    if (!condition.deterministic)
      throw EraseErrors.conditionInvalid(text, "its value isn't the same each time")
    val bound = BindReferences.bindReference(condition, columns)
    bound.find(part => part.isInstanceOf[SubqueryExpression] || part.isInstanceOf[Unevaluable]).foreach {
      part =>
        throw EraseErrors.conditionInvalid(
          text,
          s"it has ${part.prettyName}, which has no value in a row alone"
        )
    }
    new ConditionTest(bound, text)
  }

  private def executable(plan: LogicalPlan): LogicalPlan = ReplaceExpressions(ComputeCurrentTime(plan))
}

/** @param table has a row for each subject. A column is named as in a condition: `user`, `left.page` */
private[erase] final class SubjectsOfTable(session: SparkSession, table: DataFrame) extends Subjects {
  private val columns = table.schema.fieldNames.toSeq
  override val text: String = columns.mkString("subjects (", ", ", ")")
  override val names: Seq[Seq[String]] = columns.map(UnresolvedAttribute.parseAttributeName)
  private var read = Map.empty[Seq[DataType], Broadcast[Array[InternalRow]]]
  if (names.isEmpty) throw EraseErrors.conditionInvalid(text, "it names no column")

  override def test(of: Seq[Attribute], named: Seq[Expression]): RowTest = {
    val aliases = named.zipWithIndex.map { case (column, i) => Alias(column, s"c$i")() }
    val plan = SparkPlans.analyzed(SparkPlans.toFrame(session, Project(aliases, LocalRelation(of))))
    val values = plan.expressions.map { case Alias(column, _) => column; case column => column }
    val types = values.map(value => SparkPlans.nullable(value.dataType))
    columns.zip(types).find { case (_, dataType) => !RowOrdering.isOrderable(dataType) }.foreach {
      case (column, dataType) => throw wrongType(column, "the join", dataType, "a type with an order")
    }
    val found = read.getOrElse(types, session.sparkContext.broadcast(valuesOf(types)))
    read += types -> found
    new SubjectTest(values.map(BindReferences.bindReference(_, of)), found)
  }

  /** The subjects as rows of the types of the join's columns, in order. Null is nobody. A value that its column can't
    * hold is refused: truncated to 7, a subject 7.9 would be somebody else.
    */
  private def valuesOf(types: Seq[DataType]): Array[InternalRow] = {
    val input = SparkPlans.analyzed(table)
    val subjects = input.output.zip(types).map { case (column, to) => (column, castOf(column, to)) }
    val values = subjects.map { case (column, value) => Alias(value, column.name)() }
    val others = subjects.map { case (column, value) => Alias(lost(column, value), column.name)() }
    val rows = SparkPlans.execution(SparkPlans.toFrame(session, Project(values ++ others, input))).toRdd
    val unsafe = UnsafeProjection.create(types.toArray[DataType])
    rows
      .map(_.copy())
      .collect()
      .flatMap { row =>
        types.indices.find(i => !row.isNullAt(types.size + i)).foreach { i =>
          throw Errors.optionInvalid(
            "tailrace.erase",
            "subjects",
            row.getUTF8String(types.size + i).toString,
            s"values of `${columns(i)}`, which is of the type ${types(i).sql}"
          )
        }
        Option.when[InternalRow](!types.indices.exists(row.isNullAt))(unsafe(row).copy())
      }
      .sorted(SubjectTest.order(types))
  }

  private def castOf(column: Attribute, to: DataType): Expression = {
    val from = SparkPlans.nullable(column.dataType)
    val same = session.sessionState.conf.resolver
    if (!Cast.canANSIStoreAssign(from, to) || !Columns.haveSameFields(from, to, same))
      throw wrongType(column.name, "the table of subjects", column.dataType, to.sql)
    cast(column, to)
  }

  private def wrongType(column: String, frame: String, dataType: DataType, expected: String) =
    Errors.columnType("tailrace.erase", "subjects", column, frame, dataType.sql, expected)

  private def cast(value: Expression, to: DataType): Expression =
    if (DataTypeUtils.sameType(value.dataType, to)) value
    else Cast(value, to, Some(session.sessionState.conf.sessionLocalTimeZone), EvalMode.TRY)

  /** A subject's value as text, if it isn't that of the column; else null. */
  private def lost(column: Attribute, value: Expression): Expression = {
    val none = Literal(null, StringType)
    if (value eq column) none
    else
      If(
        EqualNullSafe(cast(value, SparkPlans.nullable(column.dataType)), column),
        none,
        cast(column, StringType)
      )
  }
}

/** The names that a condition may have for the columns of a join's rows. A key column is there on both sides, by the
  * names of either. Any other column is that of one side; one that both sides have needs its side's name in front.
  *
  * {{{
  *   on user = uid; left columns user, page, note; right ones uid, price, note
  *
  *              left   right
  *   user, uid    x      x       page           left only
  *   key.user     x      x       left.note      left only
  *   note        ambiguous       right.user     no column
  * }}}
  *
  * @param ofLabels keys of labels that the join's rows aren't kept by: a label and its column
  */
private[erase] final class JoinNames(
    operator: Long,
    columns: StateColumns,
    ofLabels: Seq[(String, String)],
    same: Resolver
) {
  import columns.rightKeys

  /** A right row: its key, and then its other columns. */
  val right: Seq[Attribute] = (columns.key ++ columns.right).map(attribute)
  val left: Seq[Attribute] = columns.left.map(attribute)

  private val keys = columns.key.map(_.name)

  private def attribute(field: StructField): AttributeReference =
    AttributeReference(field.name, field.dataType)()

  /** A column of a row. @param key which of the key columns it is */
  private case class Found(column: Attribute, key: Option[Int])

  private def keyNamed(name: String): Option[Int] = {
    def in(names: Seq[String]) = Some(names.indexWhere(same(_, name))).filter(_ >= 0)
    in(keys).filter(keys(_) != JoinCheckpoint.Part).orElse(in(rightKeys))
  }

  private def leftKey(i: Int): Found = Found(left.find(column => same(column.name, keys(i))).get, Some(i))
  private def rightKey(i: Int): Found = Found(right(i), Some(i))

  private def ofLeft(name: String): Option[Found] =
    left.filter(_.name != JoinCheckpoint.Part).find(column => same(column.name, name)).map { column =>
      Found(column, Some(keys.indexOf(column.name)).filter(_ >= 0))
    }

  private def ofRight(name: String): Option[Found] = {
    val key = rightKeys.indexWhere(same(_, name))
    if (key >= 0) Some(rightKey(key))
    else right.drop(keys.size).find(column => same(column.name, name)).map(Found(_, None))
  }

  /** The column that a name means on each side, with the fields of it that follow. */
  private def find(parts: Seq[String]): (Option[Expression], Option[Expression]) = {
    val name = parts.head
    val (onLeft, onRight) = (ofLeft(name), ofRight(name))
    val isQualified = parts.size > 1 && onLeft.isEmpty && onRight.isEmpty
    def fields(found: Option[Found], from: Int) = found.map { of =>
      parts
        .drop(from)
        .foldLeft[Expression](of.column)((at, field) => UnresolvedExtractValue(at, Literal(field)))
    }
    if (isQualified && same(name, "left")) (fields(ofLeft(parts(1)), 2), None)
    else if (isQualified && same(name, "right")) (None, fields(ofRight(parts(1)), 2))
    else if (isQualified && same(name, "key")) {
      val key = keyNamed(parts(1))
      (fields(key.map(leftKey), 2), fields(key.map(rightKey), 2))
    } else {
      val key = keyNamed(name)
      // The events of the label have it, too, where no condition finds it: they would stay.
      if (key.isEmpty)
        ofLabels.find { case (_, column) => same(column, name) }.foreach { case (label, column) =>
          throw EraseErrors.ofLabel(column, label, operator, keys)
        }
      val (l, r) = (onLeft.orElse(key.map(leftKey)), onRight.orElse(key.map(rightKey)))
      for (one <- l; other <- r if one.key.isEmpty || one.key != other.key)
        throw EraseErrors.ambiguous(parts.mkString("."), operator)
      (fields(l, 1), fields(r, 1))
    }
  }

  /** The columns that names mean on each side; none where a side lacks one of them. */
  def sides(names: Seq[Seq[String]]): (Option[Seq[Expression]], Option[Seq[Expression]]) = {
    val found = names.map(find)
    def all(of: Seq[Option[Expression]]) = Option.when(of.forall(_.nonEmpty))(of.flatten)
    (all(found.map(_._1)), all(found.map(_._2)))
  }

  /** The columns, for errors. */
  def text: String = {
    def shown(names: Seq[String]) = names.filter(_ != JoinCheckpoint.Part).mkString(", ")
    s"left: ${shown(left.map(_.name))}; right: ${shown(rightKeys ++ columns.right.map(_.name))}"
  }
}

/** True if a row is to be erased. */
private[erase] trait RowTest extends Serializable {

  /** For one task. */
  def begin(): InternalRow => Boolean
}

/** @param condition bound to the row's columns. A row for which it is null stays
  * @param text      as the user has written it
  */
private[erase] final class ConditionTest(condition: Expression, text: String) extends RowTest {
  override def begin(): InternalRow => Boolean = {
    val predicate = Predicate.create(condition)
    predicate.initialize(0)
    row =>
      try predicate.eval(row)
      catch {
        // In ANSI mode `user_id = 'seven'` fails at the first row.
        case NonFatal(e: SparkThrowable) =>
          throw EraseErrors.conditionInvalid(text, s"it fails at a row: ${e.getMessage.linesIterator.next()}")
      }
  }
}

/** True if some columns have the values of one of the subjects, as SQL compares them: strings by their collation, and
  * two zeros and all NaN are equal, also within structs and arrays.
  *
  * @param columns  bound to the row's
  * @param subjects in the order of [[SubjectTest.order]]
  */
private[erase] final class SubjectTest(columns: Seq[Expression], subjects: Broadcast[Array[InternalRow]])
    extends RowTest {
  override def begin(): InternalRow => Boolean = {
    val values = UnsafeProjection.create(columns)
    val order = SubjectTest.order(columns.map(_.dataType))
    val wanted = subjects.value
    row => Arrays.binarySearch(wanted, values(row), order) >= 0
  }
}

private[erase] object SubjectTest {

  /** Values that are equal in SQL are equal in Spark's order, and no others. */
  def order(types: Seq[DataType]): Ordering[InternalRow] = RowOrdering.createNaturalAscendingOrdering(types)
}

/** Leaves out the rows that are erased; the others stay in their partition.
  *
  * @param left  the test of left rows, if the condition applies to them
  * @param right of right rows
  * @param dry   no row is written, and all are counted
  */
private[erase] final class ErasureRoutes(
    columns: StateColumns,
    left: Option[RowTest],
    right: Option[RowTest],
    dry: Boolean
) extends RowRoutes {
  override def of(join: JoinState, partition: Int): RowRoute =
    new ErasureRoute(
      columns,
      left.map(_.begin()),
      right.map(_.begin()),
      if (dry) RowRoute.Nowhere else partition
    )
}

private[erase] object ErasureRoute {
  val Matches = "matches"
}

/** @param kept the route of rows that aren't erased */
private final class ErasureRoute(
    columns: StateColumns,
    left: Option[InternalRow => Boolean],
    right: Option[InternalRow => Boolean],
    kept: Int
) extends RowRoute {
  import ErasureRoute._
  import StoreKind._

  private val erased = mutable.LinkedHashMap(Side.Left.name -> 0L, Side.Right.name -> 0L, Matches -> 0L)
  private val decoder = new StateDecoder(columns)
  private val joined = new JoinedRow
  private var lastKey = Array.emptyByteArray
  private var lastRow: InternalRow = _

  /** The numbers of erased left rows, where other stores refer to them. */
  private var lefts: Option[RowNumbers] = None

  /** The numbers of right rows that stay, where notes refer to them. A note has the key of its row, which may be gone. */
  private var rights: Option[RowNumbers] = None

  override def counts: Map[String, Long] = erased.toMap

  /** Eager matching keeps a left row once, and the rest by its number: its key alone, and its matches. */
  override def begin(state: LoadedState): Unit = {
    val kinds = state.sections.map(_.section.kind).toSet
    if (kinds(LeftTimeSorted) && (kinds(LeftKeySorted) || kinds(JoinedIndicator)))
      lefts =
        left.map(test => RowNumbers.of(state, LeftTimeSorted)((live, row) => test(decoder.left(live, row))))
    if (kinds(MatchedRight))
      rights = Some(RowNumbers.of(state, RightKeySorted)((live, row) => !isRight(live, row, row)))
  }

  private def isErasedLeft(seq: Long): Boolean = lefts.exists(_.has(seq))

  override def target(live: LiveSection, row: RunCursor, keyed: RunCursor): Int = {
    val side = live.section.kind match {
      case LeftTimeSorted | HeldLeft if lefts.isEmpty => Option.when(isLeft(live, row))(Side.Left.name)
      case LeftTimeSorted => Option.when(isErasedLeft(row.seq))(Side.Left.name)
      case LeftKeySorted if RowLayout.valueLength(row.base, row.at) == 0 =>
        // A row is counted where it is stored whole.
        Option.when(isErasedLeft(row.seq))("")
      case LeftKeySorted | LeftOut => Option.when(isLeft(live, row))(Side.Left.name)
      case RightKeySorted | RightTimeSorted | HeldRight | RightNewest =>
        Option.when(isRight(live, row, keyed))(if (isFirstPart(live, keyed)) Side.Right.name else "")
      case JoinedIndicator => Option.when(isErasedLeft(row.seq) || isRight(live, row, keyed))(Matches)
      case MatchedRight => Option.when(!rights.exists(_.has(row.seq)))("")
      case other => throw new IllegalStateException(s"${other.name} has no rows of a side")
    }
    side.filter(_.nonEmpty).foreach(name => erased(name) += 1)
    if (side.isEmpty) kept else RowRoute.Nowhere
  }

  private def isLeft(live: LiveSection, row: RunCursor): Boolean =
    left.exists(test => test(decoder.left(live, row)))

  private def isRight(live: LiveSection, row: RunCursor, keyed: RunCursor): Boolean = right.exists { test =>
    // A left row without a key has no matches.
    RowLayout.keyLength(keyed.base, keyed.at) > 0 &&
    test(joined(keyOf(live, keyed), decoder.right(live, row)))
  }

  /** A right row of a salted key is in the state once for each part of the key. */
  private def isFirstPart(live: LiveSection, keyed: RunCursor): Boolean =
    columns.part.forall(keyOf(live, keyed).getInt(_) == 0)

  private def keyOf(live: LiveSection, keyed: RunCursor): InternalRow = {
    val key = keyed.keyBytes
    if (lastRow == null || !Arrays.equals(key, lastKey)) {
      lastRow = decoder.key(live, keyed)
      lastKey = key
    }
    lastRow
  }
}

/** The errors of an erasure. */
object EraseErrors {

  /** @param reason "it names no column" */
  def conditionInvalid(condition: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_ERASE_CONDITION", "condition" -> condition, "reason" -> reason)

  /** @param columns of the join, by side, as text */
  def notOfJoin(condition: String, operator: Long, columns: String): TailraceAnalysisException = refuse(
    "TAILRACE_STATE_ERASE_COLUMNS",
    "condition" -> condition,
    "operator" -> operator,
    "columns" -> columns
  )

  def ambiguous(column: String, operator: Long): TailraceAnalysisException =
    refuse("TAILRACE_STATE_ERASE_AMBIGUOUS", "column" -> column, "operator" -> operator)

  def otherOperators(checkpoint: String, operators: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_ERASE_OTHERS",
    null,
    "path" -> checkpoint,
    "operators" -> operators.mkString(", ")
  )

  /** @param keys that all labels have */
  def ofLabel(column: String, label: String, operator: Long, keys: Seq[String]): TailraceAnalysisException =
    refuse(
      "TAILRACE_STATE_ERASE_LABEL_KEY",
      "column" -> column,
      "label" -> label,
      "operator" -> operator,
      "keys" -> keys.mkString(", ")
    )

  /** @param condition of the user, on columns of impressions that their touches don't have
    * @param keys      that all labels have
    */
  def touches(
      condition: String,
      label: String,
      operator: Long,
      keys: Seq[String]
  ): TailraceAnalysisException = refuse(
    "TAILRACE_STATE_ERASE_TOUCHES",
    "condition" -> condition,
    "label" -> label,
    "operator" -> operator,
    "keys" -> keys.mkString(", ")
  )

  /** @param recursions whose rows are in files of their own */
  def rowsInFlight(checkpoint: String, recursions: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_ERASE_RECURSION",
    null,
    "path" -> checkpoint,
    "recursions" -> recursions.mkString(", ")
  )

  def rescaleCutOff(checkpoint: String, partitions: Int): TailraceStateException =
    stateError("TAILRACE_STATE_ERASE_CUT_OFF", null, "path" -> checkpoint, "partitions" -> partitions)

  def remains(directory: String, files: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_ERASE_REMAINS",
    null,
    "path" -> directory,
    "files" -> files.mkString(", ")
  )
}
