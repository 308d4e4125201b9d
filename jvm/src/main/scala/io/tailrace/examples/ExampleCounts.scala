package io.tailrace.examples

import java.util.UUID

import org.apache.spark.sql.catalyst.plans.logical.{CollectMetrics, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.{Mark, ProgressName}
import io.tailrace.label.{Emit, Horizons}
import io.tailrace.plan.Columns

/** The counts of a micro-batch's examples, in `observedMetrics` of the query's progress. */
private[tailrace] object ExampleCounts {

  def name(options: ExampleOptions): String =
    ProgressName("examples", ExampleOptions.arguments.name(options.name), ExampleOptions.Name)

  /** Refuses two definitions of one name in a query, and an observation of the user with that name: one of the counts
    * would hide the other.
    */
  object Names extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      val ours = plan.collect { case counts: CountExamples => counts.name -> counts.made.toString }
      val users = plan.collect {
        case observe: CollectMetrics if ours.exists(_._1 == observe.name) =>
          observe.name -> observe.dataframeId.toString
      }
      // A DataFrame that is used twice counts twice, and Spark reports one of the counts.
      (ours ++ users).distinct
        .groupBy(_._1)
        .collectFirst { case (name, several) if several.size > 1 => name }
        .foreach(name => throw ExampleErrors.nameExists(name))
      plan
    }
  }

  /** True if a row is a late one that is emitted on its own, or an amended one. */
  def isMarked(options: ExampleOptions): Column =
    if (options.hasMarks) Columns.named(Mark.Column).isNotNull else lit(false)

  /** True if a row is an amended one. */
  def isAmended(options: ExampleOptions): Column =
    if (options.amendFor.nonEmpty) Columns.named(Mark.Column) <=> lit(Mark.Amended.reason) else lit(false)

  /** Counts the examples as they pass.
    *
    * @param dropped for each predicate of the sample, whether it has left the row out
    */
  def add(
      examples: DataFrame,
      options: ExampleOptions,
      labels: Seq[ExampleLabel],
      dropped: Seq[(String, Column)]
  ): DataFrame = {
    val notMarked = if (options.hasMarks) !isMarked(options) else lit(true)
    // An example is counted once. With "late_positives", not each has a final version that is emitted.
    val isOnce = options.horizons.nonEmpty && options.emit != Emit.LatePositives.name
    val isExample = if (isOnce) notMarked && Columns.named(Horizons.Final) else notMarked
    val caps = labels.map { label =>
      label.maxMatches.fold(lit(false))(_ => Columns.named(LabelRule.truncated(label.name)))
    }
    counted(examples, name(options), isExample, labels.map(_.name), caps, dropped)
  }

  /** Counts the impressions that the sample leaves out before they are stored, under a name of their own. */
  def arriving(impressions: DataFrame, options: ExampleOptions, dropped: (String, Column)): DataFrame =
    counted(impressions, s"${name(options)}.arriving", lit(false), Nil, Nil, Seq(dropped))

  private def counted(
      rows: DataFrame,
      name: String,
      isExample: Column,
      labels: Seq[String],
      caps: Seq[Column],
      dropped: Seq[(String, Column)]
  ): DataFrame = {
    def expressions(columns: Seq[Column]) = columns.map(SparkPlans.expression)
    val counts = CountExamples(
      name,
      UUID.randomUUID,
      CountedNames(labels, dropped.map(_._1)),
      SparkPlans.expression(isExample),
      expressions(labels.map(Columns.named)),
      expressions(caps),
      expressions(dropped.map(_._2)),
      SparkPlans.analyzed(rows)
    )
    SparkPlans.toFrame(SparkPlans.session(rows), counts)
  }
}
