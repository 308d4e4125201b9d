package io.tailrace.recursion

import java.time.temporal.ChronoUnit
import java.time.{Instant, ZoneOffset}

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern.EXPRESSION_WITH_RANDOM_SEED
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.{DataType, DateType, TimeType}

/** The plan of op, made ready for the rows of a generation.
  *
  * @param argument which leaves stand for the rows
  * @param clockMicros what op sees as the time: that of the query, and of the micro-batch, the same when it runs again
  * @param batchSeed see [[OpAtHop]]
  * @param broadcastBytes tables that op joins are broadcast up to this size: a row then finds its matches in its own task
  */
private[recursion] final class RecursionBody(
    session: SparkSession,
    argument: Long,
    plan: LogicalPlan,
    clockMicros: Long,
    batchSeed: Option[Long],
    broadcastBytes: Long,
    sizes: TableSizes
) {
  private lazy val planning = SparkPlans.planningSession(session, broadcastBytes)
  private lazy val op = {
    val small = new SmallTables(planning, argument, broadcastBytes, sizes)
    new OpAtHop(argument, small.hinted(plan), clockMicros, batchSeed)
  }

  /** How often op reads its argument. */
  val reads: Int = plan.collect { case a: RecursionArgument if a.id == argument => a }.size

  /** For tasks that make all hops of their rows. */
  def inTasks(rows: ArgumentRDD): PlannedBody = planned(op.inTasks, rows)

  /** For a job that makes one hop of all rows. */
  def at(hop: Int, rows: RDD[InternalRow]): RDD[InternalRow] = planned(op.at(hop), rows).rows

  private def planned(op: LogicalPlan, rows: RDD[InternalRow]): PlannedBody = {
    val ready = op.transformUp {
      case a: RecursionArgument if a.id == argument => ArgumentRows(a.output, rows)
      case union: Union if union.children.forall(_.exists(_.isInstanceOf[ArgumentRows])) => NarrowUnion(union)
    }
    new PlannedBody(SparkPlans.executedPlan(planning, ready))
  }
}

private[recursion] final class PlannedBody(plan: SparkPlan) {

  lazy val rows: RDD[InternalRow] = plan.execute()

  /** Whether a row's results can come into being in the row's own task. */
  def isNarrow: Boolean = !exchangesArgument && ArgumentRDD.isComputedInPlace(rows)

  /** A broadcast of the argument isn't to be seen in RDDs, and a shuffle must not be prepared for nothing. */
  private def exchangesArgument: Boolean = plan.exists {
    case exchange: Exchange => exchange.exists(_.isInstanceOf[ArgumentRowsExec])
    case _ => false
  }
}

/** Op's plan for a hop. Spark gives the expressions of a query's own plan the time and new seeds at each micro-batch; op's plan
  * isn't among them, and is computed more often than once a micro-batch:
  *
  * {{{
  *   the time          one, that of the query
  *   random functions  on the way of the argument: another seed at each hop
  *                     in tables that op joins: one for all hops, which see the same table
  *   samples           by a random function
  * }}}
  *
  * @param argument     which leaves of `plan` stand for op's argument
  * @param clockMicros  what op sees as the time
  * @param batchSeed    what random functions of the micro-batch begin with; none for a batch frame, which gives the same
  *                     values each time
  */
private[recursion] final class OpAtHop(
    argument: Long,
    plan: LogicalPlan,
    clockMicros: Long,
    batchSeed: Option[Long]
) {
  private val prepared: LogicalPlan = seededForBatch(replaced(samplesByChance(atTime(plan))))

  /** For tasks that make all hops of their rows: the hop is known in the task only. */
  def inTasks: LogicalPlan = onTheWay(SeededByHop(_))

  /** For a job of its own. */
  def at(hop: Int): LogicalPlan = onTheWay(HopSeeds.mixed(_, hop.toLong))

  private def onTheWay(seeded: ExpressionWithRandomSeed => Expression): LogicalPlan = prepared.transformUp {
    case node if readsArgument(node) =>
      node.transformExpressionsUpWithPruning(_.containsPattern(EXPRESSION_WITH_RANDOM_SEED)) {
        case random: ExpressionWithRandomSeed => seeded(random)
      }
  }

  private def readsArgument(node: LogicalPlan): Boolean = node.exists {
    case leaf: RecursionArgument => leaf.id == argument
    case _ => false
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

  /** Spark's own operator has one seed for good. */
  private def samplesByChance(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case sample: Sample if readsArgument(sample) && !sample.withReplacement =>
      val chance = Alias(Rand(sample.seed.getOrElse(0L)), "chance")()
      val drawn = Project(sample.child.output :+ chance, sample.child)
      val (from, to) = (Literal(sample.lowerBound), Literal(sample.upperBound))
      val kept =
        And(GreaterThanOrEqual(chance.toAttribute, from), LessThan(chance.toAttribute, to))
      Project(sample.child.output, Filter(kept, drawn))
  }

  /** Expressions that only stand for others, with the random ones in those. */
  private def replaced(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressionsWithSubqueries {
    case random: RuntimeReplaceable if random.isInstanceOf[ExpressionWithRandomSeed] => random.replacement
  }

  private def seededForBatch(plan: LogicalPlan): LogicalPlan = batchSeed.fold(plan) { number =>
    plan.transformAllExpressionsWithSubqueries { case random: ExpressionWithRandomSeed =>
      HopSeeds.mixed(random, number)
    }
  }
}

/** A random expression of op's, computed in a task that makes all hops of its rows: at each hop it begins with another seed.
  * Without this it would begin with the same one each time that op is computed, and give the same values.
  *
  * @param child one that has a seed, which has been mixed with that of the micro-batch already
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

  /** The same expression with a seed that is made of its own and another number: another number, other values. */
  def mixed(random: ExpressionWithRandomSeed, number: Long): Expression =
    random.withNewSeed(mix(seed(random), number))

  private def seed(random: ExpressionWithRandomSeed): Long = random.seedExpression.eval() match {
    case number: Number => number.longValue
    // Spark takes rand(null) for rand(0).
    case _ => 0L
  }

  /** The finalizer of SplitMix64: neighbours don't stay neighbours. */
  private def mix(seed: Long, number: Long): Long = {
    var z = seed + (number + 1) * 0x9e3779b97f4a7c15L
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }
}
