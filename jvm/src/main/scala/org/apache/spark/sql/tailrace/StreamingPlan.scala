package org.apache.spark.sql.tailrace

import java.util.{Locale, UUID}

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  Cast,
  Expression,
  SortOrder,
  TaggingExpression
}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan, UnaryExecNode}
import org.apache.spark.unsafe.types.CalendarInterval

/** The plan of a micro-batch as it has run. Adaptive execution and the reuse of exchanges hide parts of it
  * from `children`; here they are inputs.
  */
object StreamingPlan {

  /** The nodes whose rows a node reads. */
  def inputs(plan: SparkPlan): Seq[SparkPlan] = plan match {
    case adaptive: AdaptiveSparkPlanExec => Seq(adaptive.executedPlan)
    case stage: QueryStageExec => Seq(stage.plan)
    case reused: ReusedExchangeExec => Seq(reused.child)
    case other => other.children
  }

  /** The nodes of the whole plan. */
  def nodes(plan: SparkPlan): Seq[SparkPlan] = plan +: inputs(plan).flatMap(nodes)

  def watermarkNodes(plan: SparkPlan): Seq[EventTimeWatermarkExec] = nodes(plan).collect {
    case node: EventTimeWatermarkExec if !node.isInstanceOf[ReusedWatermarkExec] => node
  }

  def hasState(plan: SparkPlan): Boolean = nodes(plan).exists(_.isInstanceOf[StateStoreWriter])
}

/** The watermark of the rows that a plan emits, by the rules of Spark's propagation: a watermark node gives the
  * query's watermark, an operator with state computes its own from its input's, any other node gives the minimum
  * of its inputs'.
  */
object OutputWatermark {

  /** @param origin the watermark of the query, in milliseconds
    * @return milliseconds; none if there is no watermark below
    */
  def of(plan: SparkPlan, origin: Long): Option[Long] = plan match {
    case _: EventTimeWatermarkExec => Some(origin)
    case operator: StateStoreWriter =>
      if (origin <= 0) Some(0L) else least(operator)(of(_, origin)).flatMap(operator.produceOutputWatermark)
    case other => least(other)(of(_, origin))
  }

  /** The watermark of the rows that a micro-batch emits.
    *
    * @param current  the query's watermark in the batch, in milliseconds
    * @param previous the query's watermark in the batch before: operators with state have closed up to it
    */
  def ofRows(plan: SparkPlan, current: Long, previous: Long): Option[Long] =
    of(plan, if (StreamingPlan.hasState(plan)) Math.min(current, previous) else current)

  /** The watermark after a batch: no row of a later batch is before it.
    *
    * @param currentMs Spark's watermark in the batch, in milliseconds
    * @param sourceLow a source's watermark after the batch, in microseconds; Long.MinValue: none
    * @param after     the first microsecond after a watermark of Spark
    * @return microseconds; none if there is no watermark below
    */
  def afterBatch(
      plan: SparkPlan,
      currentMs: Long,
      sourceLow: EventTimeWatermarkExec => Long,
      after: Long => Long
  ): Option[Long] = plan match {
    case reused: ReusedWatermarkExec => afterBatch(reused.child, currentMs, sourceLow, after)
    case watermark: EventTimeWatermarkExec => Some(sourceLow(watermark))
    // Its later rows have times after those that it has closed in the batch.
    case operator: StateStoreWriter => of(operator, currentMs).map(after)
    case other => least(other)(afterBatch(_, currentMs, sourceLow, after))
  }

  /** The watermark up to which a Spark operator has closed its state when a batch has ended, in milliseconds; none if
    * it has no state, or closes none.
    */
  def closed(operator: SparkPlan): Option[Long] = operator match {
    case join: StreamingSymmetricHashJoinExec => join.eventTimeWatermarkForEviction
    case other: WatermarkSupport => other.eventTimeWatermarkForEviction
    case _ => None
  }

  private def least(plan: SparkPlan)(watermark: SparkPlan => Option[Long]): Option[Long] =
    StreamingPlan.inputs(plan).flatMap(watermark(_)).minOption
}

/** Keeps the watermark visible where a streaming query with state uses the same rows twice, for instance a
  * DataFrame on both sides of a join: see [[SharedExchangeExec]]. The rows are still shuffled once.
  *
  * It is a columnar rule, because those run between the rules that add state and exchanges and the rule that
  * finds equal exchanges. Two operators with state are never equal: each has its own state.
  */
object SharedExchanges extends ColumnarRule {
  override def postColumnarTransitions: Rule[SparkPlan] = Marking

  private object Marking extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = {
      val hasState = conf.exchangeReuseEnabled && plan.exists(_.isInstanceOf[StateStoreWriter])
      val shared = if (hasState) sharedExchanges(plan) else Set.empty[SparkPlan]
      if (shared.isEmpty) plan
      else
        plan.transformUp {
          case exchange: Exchange if shared.contains(exchange.canonicalized) =>
            SharedExchangeExec(exchange)(watermark(exchange).get)
        }
    }

    /** Exchanges that Spark finds equal to another one. */
    private def sharedExchanges(plan: SparkPlan): Set[SparkPlan] = {
      val exchanges = plan.collect { case e: Exchange if watermark(e).nonEmpty => e.canonicalized }
      exchanges.diff(exchanges.distinct).toSet
    }

    private def watermark(plan: SparkPlan): Option[EventTimeWatermarkExec] =
      plan.collectFirst { case w: EventTimeWatermarkExec => w }
  }
}

/** A node above an exchange that Spark may replace by an equal one. If Spark does, the node becomes a
  * [[ReusedWatermarkExec]].
  *
  * Spark computes the watermarks of a batch over the plan of the batch before, and a reused exchange is a
  * leaf of that plan. Without this node, operators above it have no watermark from the second batch on, and
  * never evict their rows.
  *
  * @param watermark a watermark node below the exchange
  */
final case class SharedExchangeExec(child: SparkPlan)(@transient val watermark: EventTimeWatermarkExec)
    extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  // An exchange is compared with others together with the exchanges below it.
  override protected def doCanonicalize(): SparkPlan = child.canonicalized

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(watermark)

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = newChild match {
    case reused: ReusedExchangeExec =>
      new ReusedWatermarkExec(watermark.nodeId, watermark.eventTime, watermark.delay, reused)
    case _ => copy(child = newChild)(watermark)
  }
}

/** The rows of an exchange elsewhere in the plan, and a sign that a watermark node is below that exchange:
  * the node is one of Spark's watermark nodes, which Spark looks for among a plan's children. It sees no row,
  * so it adds no event time to those of the node that it stands for.
  */
final class ReusedWatermarkExec(
    nodeId: UUID,
    eventTime: Attribute,
    delay: CalendarInterval,
    child: SparkPlan
) extends EventTimeWatermarkExec(nodeId, eventTime, delay, child) {
  override def nodeName: String = "ReusedWatermark"

  // Spark's node would mark this one column as the event time, and the child may have marked others.
  override val output: Seq[Attribute] = child.output

  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doCanonicalize(): SparkPlan = child.canonicalized

  override def copy(
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan
  ): ReusedWatermarkExec = new ReusedWatermarkExec(nodeId, eventTime, delay, child)
  override protected def withNewChildInternal(newChild: SparkPlan): ReusedWatermarkExec =
    copy(nodeId, eventTime, delay, newChild)

  override def canEqual(other: Any): Boolean = other.isInstanceOf[ReusedWatermarkExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
}

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
