package io.tailrace.recursion

import java.time.temporal.ChronoUnit
import java.time.{Instant, ZoneOffset}
import java.util.Locale

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern.EXPRESSION_WITH_RANDOM_SEED
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.tailrace.{Exchange, SampleSeed, SparkPlans, SparkSession}
import org.apache.spark.sql.types.{BooleanType, DataType, DateType, TimeType}

import io.tailrace.plan.{Obstacle, TailraceNode}

/** The plan of op, made ready for the rows of a generation.
  *
  * @param clockMicros    the time of the query or micro-batch, the same when a micro-batch runs again
  * @param batchSeed      see [[OpAtHop]]
  * @param broadcastBytes tables up to this size are broadcast: then a row finds its matches in its own task
  */
private[recursion] final class RecursionBody(
    session: SparkSession,
    rules: OpRules,
    plan: LogicalPlan,
    clockMicros: Long,
    batchSeed: Option[Long],
    broadcastBytes: Long,
    sizes: TableSizes
) {
  private lazy val planning = SparkPlans.planningSession(session, broadcastBytes)
  private lazy val op = {
    val small = new SmallTables(planning, rules, broadcastBytes, sizes)
    new OpAtHop(rules, small.hinted(plan), clockMicros, batchSeed)
  }

  /** The number of times that op reads its argument. */
  val reads: Int = plan.collectLeaves().count(rules.isArgument)

  /** For tasks that make all hops of their rows. */
  def inTasks(rows: ArgumentRDD): PlannedBody = planned(op.inTasks, rows)

  /** For a job that makes one hop of all rows. */
  def at(hop: Int, rows: RDD[InternalRow]): RDD[InternalRow] = planned(op.at(hop), rows).rows

  private def planned(op: LogicalPlan, rows: RDD[InternalRow]): PlannedBody = {
    val ready = op.transformUp {
      case a: RecursionArgument if rules.isArgument(a) => ArgumentRows(a.output, rows)
      case union: Union if union.children.forall(_.exists(_.isInstanceOf[ArgumentRows])) =>
        NarrowUnion(union.output, union.children)
    }
    new PlannedBody(SparkPlans.executedPlan(planning, ready))
  }
}

private[recursion] final class PlannedBody(plan: SparkPlan) {
  lazy val rows: RDD[InternalRow] = plan.execute()

  /** True if a row's results can be computed in the row's own task. */
  def isNarrow: Boolean = !exchangesArgument && ArgumentRDD.isComputedInPlace(rows)

  /** Asked first: RDDs don't show a broadcast of the argument, and making them would prepare a shuffle. */
  private def exchangesArgument: Boolean = plan.exists {
    case exchange: Exchange => exchange.exists(_.isInstanceOf[ArgumentRowsExec])
    case _ => false
  }
}

/** Op's plan for a hop. Spark sets the time and new seeds in a query's own plan at each micro-batch. It
  * doesn't see op's plan, which is computed several times in a micro-batch. So this does it:
  *
  * {{{
  *   the time          one, that of the query
  *   random functions  on the way of the argument: another seed at each hop
  *                     in tables that op joins: one for all hops, which see the same table
  *   samples           by a random function
  * }}}
  *
  * @param batchSeed the seed of the micro-batch; none for a batch DataFrame, whose values stay the same
  */
private[recursion] final class OpAtHop(
    rules: OpRules,
    plan: LogicalPlan,
    clockMicros: Long,
    batchSeed: Option[Long]
) {
  private val prepared: LogicalPlan = seededForBatch(replaced(samplesByChance(atTime(plan))))

  /** For tasks that make all hops of their rows: only the task knows the hop. */
  def inTasks: LogicalPlan = onTheWay(SeededByHop(_))

  /** For a job that makes one hop. */
  def at(hop: Int): LogicalPlan = onTheWay(HopSeeds.mixed(_, hop.toLong))

  private def onTheWay(seeded: ExpressionWithRandomSeed => Expression): LogicalPlan = prepared.transformUp {
    case node if rules.usesArgument(node) =>
      node.transformExpressionsUpWithPruning(_.containsPattern(EXPRESSION_WITH_RANDOM_SEED)) {
        case random: ExpressionWithRandomSeed => seeded(random)
      }
  }

  private def atTime(plan: LogicalPlan): LogicalPlan = {
    val now = Instant.EPOCH.plus(clockMicros, ChronoUnit.MICROS)
    plan.transformAllExpressionsWithSubqueries {
      case t: CurrentTimestampLike => Literal.create(clockMicros, t.dataType)
      case t: LocalTimestamp =>
        Literal.create(DateTimeUtils.convertTz(clockMicros, ZoneOffset.UTC, t.zoneId), t.dataType)
      case d: CurrentDate => Literal.create(DateTimeUtils.microsToDays(clockMicros, d.zoneId), DateType)
      case t: CurrentTime =>
        val nanos = DateTimeUtils.instantToNanosOfDay(now, t.zoneId)
        Literal.create(DateTimeUtils.truncateTimeToPrecision(nanos, t.precision), TimeType(t.precision))
    }
  }

  /** Spark's own operator always has the same seed. */
  private def samplesByChance(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case sample: Sample if rules.usesArgument(sample) && !sample.withReplacement =>
      val chance = Alias(Rand(SampleSeed.of(sample)), "chance")()
      val drawn = chance.toAttribute
      val isInside = And(
        GreaterThanOrEqual(drawn, Literal(sample.lowerBound)),
        LessThan(drawn, Literal(sample.upperBound))
      )
      Project(sample.child.output, Filter(isInside, Project(sample.child.output :+ chance, sample.child)))
  }

  /** Puts the random expressions in place of those that only stand for them. */
  private def replaced(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressionsWithSubqueries {
    case random: RuntimeReplaceable if random.isInstanceOf[ExpressionWithRandomSeed] => random.replacement
  }

  private def seededForBatch(plan: LogicalPlan): LogicalPlan = batchSeed.fold(plan) { number =>
    plan.transformAllExpressionsWithSubqueries { case random: ExpressionWithRandomSeed =>
      HopSeeds.mixed(random, number)
    }
  }
}

/** A random expression of op in a task that makes all hops of its rows. It begins with another seed at each
  * hop. Otherwise, it would give the same values each time that op is computed.
  *
  * @param child has a seed, mixed with that of the micro-batch already
  */
private[recursion] final case class SeededByHop(child: Expression)
    extends UnaryExpression
    with Nondeterministic
    with CodegenFallback {
  @transient private var seeded: Expression = _

  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def stateful: Boolean = true

  override protected def initializeInternal(partitionIndex: Int): Unit = {
    seeded = child match {
      case random: ExpressionWithRandomSeed => HopSeeds.mixed(random, ArgumentRDD.hop.toLong)
      case other => throw new IllegalStateException(s"${other.prettyName} has no seed")
    }
    seeded.foreach {
      case random: Nondeterministic => random.initialize(partitionIndex)
      case _ =>
    }
  }

  override protected def evalInternal(input: InternalRow): Any = seeded.eval(input)

  override protected def withNewChildInternal(newChild: Expression): SeededByHop = copy(child = newChild)
}

private[recursion] object HopSeeds {

  /** The same expression with a seed made from its own and a number. Each number gives other values. */
  def mixed(random: ExpressionWithRandomSeed, number: Long): Expression = {
    val seed = random.seedExpression.eval() match {
      case own: Number => own.longValue
      // Spark takes rand(null) for rand(0).
      case _ => 0L
    }
    random.withNewSeed(mix(seed, number))
  }

  /** The finalizer of SplitMix64: neighbours don't stay neighbours. */
  private def mix(seed: Long, number: Long): Long = {
    var z = seed + (number + 1) * 0x9e3779b97f4a7c15L
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }
}

/** Makes Spark broadcast small tables that op joins and whose size it doesn't know: those of
  * `createDataFrame`, of many sources, of functions in Python, and of joins, whose sides' sizes it
  * multiplies. Otherwise, each hop would need an exchange and a job.
  *
  * @param enough bytes up to which a table is small
  */
private[recursion] final class SmallTables(
    planning: SparkSession,
    rules: OpRules,
    enough: Long,
    sizes: TableSizes
) {
  private val threshold = planning.sessionState.conf.autoBroadcastJoinThreshold

  def hinted(plan: LogicalPlan): LogicalPlan =
    // Below zero the user wants no broadcast.
    if (threshold < 0) plan
    else
      plan.transformUp {
        case join: Join if !isHinted(join) =>
          (rules.usesArgument(join.left), rules.usesArgument(join.right)) match {
            case (true, false) => join.copy(right = broadcastIfSmall(join.right))
            case (false, true) => join.copy(left = broadcastIfSmall(join.left))
            case _ => join
          }
      }

  private def broadcastIfSmall(table: LogicalPlan): LogicalPlan =
    if (!isUnknown(table) || size(table) > Math.min(enough, threshold)) table
    else ResolvedHint(table, HintInfo(strategy = Some(BROADCAST)))

  private def size(table: LogicalPlan): Long = sizes.of(table) {
    val plan = SparkPlans.executedPlan(planning, table)
    TableSizes.measured(plan.execute(), plan.output, enough)
  }

  /** True if Spark takes a table for large without a source in it that is known to be large. */
  private def isUnknown(table: LogicalPlan): Boolean =
    // This is cheap, and mostly enough.
    table.stats.sizeInBytes > threshold && {
      val optimized = SparkPlans.optimized(planning, table)
      optimized.stats.sizeInBytes > threshold && optimized.collectLeaves().forall { leaf =>
        val bytes = leaf.stats.sizeInBytes
        bytes <= threshold || bytes >= planning.sessionState.conf.defaultSizeInBytes
      }
    }

  private def isHinted(join: Join): Boolean =
    join.hint.leftHint.orElse(join.hint.rightHint).exists(_.strategy.isDefined) ||
      Seq(join.left, join.right).exists(_.exists {
        case ResolvedHint(_, info) => info.strategy.isDefined
        case _ => false
      })
}

/** Analyzes the plan of a recursion's op: whether it is supported, and how its rows are fed back.
  *
  * @param argument the id of the leaves that stand for op's argument
  */
final class OpRules(argument: Long) {

  def isArgument(plan: LogicalPlan): Boolean = plan match {
    case a: RecursionArgument => a.id == argument
    case _ => false
  }

  def usesArgument(plan: LogicalPlan): Boolean = plan.exists(isArgument)

  /** True if the argument is in a subquery, which can't feed rows back. */
  def isInSubquery(plan: LogicalPlan): Boolean =
    plan.exists(
      _.expressions.exists(_.exists {
        case subquery: SubqueryExpression => usesArgument(subquery.plan) || isInSubquery(subquery.plan)
        case _ => false
      })
    )

  /** The operators on the way from the argument to the result. */
  private def way(plan: LogicalPlan): Seq[LogicalPlan] =
    plan.collect { case node if !isArgument(node) && usesArgument(node) => node }

  /** True if op returns the argument itself, possibly under other column names. */
  def isIdentity(plan: LogicalPlan): Boolean = plan match {
    case SubqueryAlias(_, child) => isIdentity(child)
    case view: View => isIdentity(view.child)
    case Project(list, child) =>
      isIdentity(child) && list.size == child.output.size && list.zip(child.output).forall {
        case (Alias(a: Attribute, _), column) => a.exprId == column.exprId
        case (named, column) => named.exprId == column.exprId
      }
    case other => isArgument(other)
  }

  /** True if some way from the argument to the result loses no row: then each row gives another one. */
  def isEndless(plan: LogicalPlan): Boolean =
    isArgument(plan) || (!canDrop(plan) && plan.children.filter(usesArgument).exists(isEndless))

  private def canDrop(node: LogicalPlan): Boolean = node match {
    case Filter(Literal(true, BooleanType), _) => false
    case _: Filter => true
    case join: Join => dropsArgument(join)
    case node: TailraceNode => node.dropsRows
    case generate: Generate => !generate.outer
    case _: Project | _: SubqueryAlias | _: View | _: ResolvedHint | _: Sort | _: RepartitionOperation |
        _: EventTimeWatermark | _: Window | _: MapElements | _: DeserializeToObject | _: SerializeFromObject |
        _: AppendColumns | _: CollectMetrics | _: Expand | _: Union =>
      false
    // Limits, deduplication, sampling, aggregation, functions that give any number of rows; unknown nodes.
    case _ => true
  }

  private def dropsArgument(join: Join): Boolean = join.joinType match {
    case LeftOuter => !usesArgument(join.left)
    case RightOuter => !usesArgument(join.right)
    case FullOuter | ExistenceJoin(_) => false
    case _ => true
  }

  /** The reason why op's result for some rows isn't the results for each of them, put together. Then tasks
    * can't work it out for their own rows alone.
    *
    * @return none if they can
    */
  def needsState(plan: LogicalPlan): Option[Obstacle] =
    plan
      .collectLeaves()
      .find(leaf => leaf.isStreaming && !isArgument(leaf))
      .map(leaf => Obstacle(leaf.nodeName, "op reads a stream besides its argument"))
      .orElse(way(plan).flatMap(obstacle).headOption)

  private def obstacle(node: LogicalPlan): Option[Obstacle] = node match {
    case _: Project | _: Filter | _: Generate | _: SubqueryAlias | _: View | _: ResolvedHint |
        _: RepartitionOperation | _: Expand | _: Sample | _: MapElements | _: MapPartitions | _: TypedFilter |
        _: DeserializeToObject | _: SerializeFromObject | _: AppendColumns | _: MapInPandas | _: MapInArrow =>
      None
    case sort: Sort if !sort.global => None
    case join: Join => joinObstacle(join)
    case union: Union =>
      val reason = "one of its sides gives the same rows at each hop, whatever the argument is"
      Option.when(!union.children.forall(usesArgument))(Obstacle("a union", reason))
    case other => Some(Obstacle(other.nodeName, "it has to know rows of earlier hops"))
  }

  private def joinObstacle(join: Join): Option[Obstacle] = {
    val keepsTable = join.joinType match {
      case _: InnerLike => false
      case LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_) => usesArgument(join.right)
      case RightOuter => usesArgument(join.left)
      case _ => true
    }
    if (usesArgument(join.left) && usesArgument(join.right))
      Some(Obstacle("a join", "it joins the argument with itself, over all hops"))
    else {
      val name = s"a ${join.joinType.sql.toLowerCase(Locale.ROOT)} join"
      Option.when(keepsTable)(Obstacle(name, "it gives rows of the other side that no row matches"))
    }
  }

  /** The node that isn't supported on the way, in either mode. */
  def refused(plan: LogicalPlan): Option[Obstacle] = way(plan).flatMap {
    case node: TailraceNode if node.refusedInRecursion.isDefined => node.refusedInRecursion
    case _: EventTimeWatermark => Some(Obstacle.Watermark)
    case _: CollectMetrics => Some(Obstacle("observe", "its metrics would be of each hop"))
    case sample: Sample if sample.withReplacement =>
      Some(Obstacle("a sample with replacement", "it would draw the same rows at each hop"))
    case node => node.expressions.flatMap(_.collect(numbersRows)).headOption
  }.headOption

  /** A sample's seed is the same in each micro-batch, so in each hop of a recursion by feedback. */
  def refusedByMicroBatch(plan: LogicalPlan): Option[Obstacle] = way(plan).collectFirst { case _: Sample =>
    Obstacle("a sample", "it would draw the same rows at each hop; where(rand() < fraction) doesn't")
  }

  private val numbersRows: PartialFunction[Expression, Obstacle] = {
    case _: MonotonicallyIncreasingID =>
      Obstacle("monotonically_increasing_id()", "it begins anew at each hop; uuid() doesn't repeat itself")
    case file @ (_: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength) =>
      Obstacle(s"${file.prettyName}()", "a row that comes round is of no file")
  }

  def isNested(plan: LogicalPlan): Boolean = way(plan).exists(_.isInstanceOf[Recursion])
}
