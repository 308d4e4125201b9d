package io.tailrace.erase

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{BindReferences, Cast, Expression, _}
import org.apache.spark.sql.catalyst.optimizer.{ComputeCurrentTime, ReplaceExpressions}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types.{ArrayType, DataType, StringType, StructType}

import io.tailrace.common.Errors

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
    * have is refused: cut to 7, a subject 7.9 would be somebody else.
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
    if (!Cast.canANSIStoreAssign(from, to) || !hasSameFields(from, to))
      throw wrongType(column.name, "the table of subjects", column.dataType, to.sql)
    cast(column, to)
  }

  /** A cast goes by the places of fields. `{b, a}` as `{a, b}` would be somebody else. */
  private def hasSameFields(from: DataType, to: DataType): Boolean = (from, to) match {
    case (one: StructType, other: StructType) =>
      one.size == other.size && one.zip(other).forall { case (a, b) =>
        session.sessionState.conf.resolver(a.name, b.name) && hasSameFields(a.dataType, b.dataType)
      }
    case (ArrayType(one, _), ArrayType(other, _)) => hasSameFields(one, other)
    case _ => true
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
