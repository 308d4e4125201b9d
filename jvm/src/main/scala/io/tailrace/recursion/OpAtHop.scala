package io.tailrace.recursion

import java.time.temporal.ChronoUnit
import java.time.{Instant, ZoneOffset}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern.EXPRESSION_WITH_RANDOM_SEED
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types.{DateType, TimeType}

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
