package org.apache.spark.sql.tailrace

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, Expression, TaggingExpression}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec

/** Describes operators for people, from their plan:
  *
  * {{{
  *   logs.groupBy(window(...), col("user")).agg(count("*"), sum("price"))   count, sum(price) by window, user
  *   logs.dropDuplicates("id")                                             drop duplicates of id
  *   clicks.join(views, clicks("ad") === views("id"))                      Spark's join on ad = id
  *   logs.groupBy(col("code") === "the secret").count()                    count by an expression of code
  * }}}
  *
  * They have names of columns and functions, and no values: those of a filter may be secret. So a column that
  * is named by its expression is an expression, too.
  */
object OperatorWords {

  /** The most code points of the words of an operator. */
  val Longest = 100

  // Further ones wouldn't be visible, and each is looked up in the whole plan.
  private val MostColumns = 30

  /** Words that aren't longer than that. */
  def cut(words: String): String =
    if (words.codePointCount(0, words.length) <= Longest) words
    else words.substring(0, words.offsetByCodePoints(0, Longest - 1)) + "…"

  /** The words of one of Spark's own operators with state. */
  def of(operator: StateStoreWriter): String = cut(operator match {
    case save: StateStoreSaveExec => aggregation(save, save.keyExpressions)
    case save: SessionWindowStateStoreSaveExec =>
      aggregation(save, save.keyWithoutSessionExpressions :+ save.sessionExpression)
    case node: StreamingDeduplicateExec => s"drop duplicates of ${columns(node, node.keyExpressions)}"
    case node: StreamingDeduplicateWithinWatermarkExec =>
      s"drop duplicates of ${columns(node, node.keyExpressions)} within the watermark"
    case join: StreamingSymmetricHashJoinExec =>
      s"Spark's ${kind(join)} on ${pairs(join, join.leftKeys, join.rightKeys)}"
    case _: StreamingGlobalLimitExec => "limit"
    // State of the user's own: `mapGroupsWithState`, `transformWithState` and their like.
    case node: WatermarkSupport => s"state by ${columns(node, node.keyExpressions)}"
    case other => other.shortName
  })

  /** The keys of a join: `id, user = user_id`. */
  def pairs(join: SparkPlan, left: Seq[Expression], right: Seq[Expression]): String = listed(
    left.zip(right).take(MostColumns).map { case (one, other) =>
      val (l, r) = (word(join, one), word(join, other))
      if (l == r) l else s"$l = $r"
    }
  )

  /** A sink's kind, for instance `Kafka`; none if its class has no name. Its own text may have a path. */
  def sink(sink: Table): Option[String] = {
    val name = sink.getClass.getSimpleName.stripSuffix("$").stripSuffix("Table").stripSuffix("Sink")
    Some(name).filter(isName)
  }

  private def kind(join: StreamingSymmetricHashJoinExec): String =
    if (join.joinType == Inner) "join" else s"${join.joinType.sql.toLowerCase(Locale.ROOT)} join"

  private def aggregation(save: StateStoreWriter, keys: Seq[Attribute]): String = {
    val functions = StreamingPlan
      .nodes(save)
      .collectFirst { case node: BaseAggregateExec => node.aggregateExpressions.map(_.aggregateFunction) }
      .toSeq
      .flatten
    val what = listed(functions.map { function =>
      val of = function.children.filterNot(_.foldable).map(word(save, _))
      if (of.isEmpty) function.prettyName else s"${function.prettyName}(${listed(of)})"
    })
    val by = if (keys.isEmpty) "all rows" else columns(save, keys)
    if (what.isEmpty) s"distinct $by" else if (keys.isEmpty) s"$what of $by" else s"$what by $by"
  }

  private def columns(node: SparkPlan, expressions: Seq[Expression]): String =
    listed(expressions.take(MostColumns).map(word(node, _)))

  private def listed(words: Seq[String]): String = words.distinct.mkString(", ")

  private def word(node: SparkPlan, expression: Expression): String = expression match {
    case column: Attribute =>
      definition(node, column) match {
        case Some(constant) if constant.foldable => anExpression(Nil) // its name may be its value
        case _ if isName(column.name) => column.name
        case found => found.fold(anExpression(Nil))(word(node, _))
      }
    case cast: Cast => word(node, cast.child)
    case tag: TaggingExpression => word(node, tag.child)
    case normalized: NormalizeNaNAndZero => word(node, normalized.child)
    case other => anExpression(names(other))
  }

  private def anExpression(of: Seq[String]): String =
    if (of.isEmpty) "an expression" else s"an expression of ${of.mkString(", ")}"

  private def names(expression: Expression): Seq[String] =
    expression.references.toSeq.map(_.name).filter(isName).distinct

  /** The expression whose result a column is. */
  private def definition(node: SparkPlan, column: Attribute): Option[Expression] =
    StreamingPlan.nodes(node).flatMap(_.expressions).collectFirst {
      case alias: Alias if alias.exprId == column.exprId => alias.child
    }

  /** Spark names a column without a name by its expression, `(code = the secret)`, and a key without a name
    * `_groupingexpression`.
    */
  private def isName(name: String): Boolean =
    name.matches("[\\p{L}_][\\p{L}\\p{N}_.-]*") && !name.startsWith("_groupingexpression")
}
