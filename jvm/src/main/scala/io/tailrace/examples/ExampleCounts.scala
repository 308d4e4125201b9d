package io.tailrace.examples

import org.apache.spark.sql.catalyst.plans.logical.{CollectMetrics, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.{Mark, ProgressName}
import io.tailrace.label.{Emit, Horizons}
import io.tailrace.plan.Columns

/** What a micro-batch's examples were, in `observedMetrics` of the query's progress. */
private[tailrace] object ExampleCounts {

  val Schema: StructType = new StructType()
    .add("rows", LongType)
    .add("labels", ArrayType(LabelCounts.Schema))
    .add("sample", ArrayType(new StructType().add("predicate", StringType).add("dropped", LongType)))

  def name(options: ExampleOptions): String =
    ProgressName("examples", ExampleOptions.arguments.name(options.name), ExampleOptions.Name)

  /** Refuses two definitions of one name in a query. Spark would say that an observation of that name exists, which the
    * user hasn't made.
    */
  object Names extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      val counts = plan.collect {
        case of: CollectMetrics if of.name == Prefix || of.name.startsWith(s"$Prefix.") => of
      }
      // A DataFrame that is used twice counts twice, and Spark reports one of the counts.
      counts
        .groupBy(_.name)
        .collectFirst { case (name, of) if of.map(_.dataframeId).distinct.size > 1 => name }
        .foreach(name => throw ExampleErrors.nameExists(name))
      plan
    }
  }

  private val Prefix = ProgressName("examples", ExampleOptions.Name, ExampleOptions.Name)

  /** Whether a row is a late one that comes out by itself, or an amended one. */
  def isMarked(options: ExampleOptions): Column =
    if (options.hasMarks) Columns.named(Mark.Column).isNotNull else lit(false)

  /** Whether a row is an amended one. */
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
    // An example is counted once. With "late_positives", not each has a final version that comes out.
    val isOnce = options.horizons.nonEmpty && options.emit != Emit.LatePositives.name
    val isExample = if (isOnce) notMarked && Columns.named(Horizons.Final) else notMarked
    def named(columns: Seq[Column]) = columns.map(SparkPlans.expression)
    val ofLabels = LabelCounts(
      labels.map(_.name),
      SparkPlans.expression(isExample),
      named(labels.map(label => Columns.named(label.name))),
      named(labels.map { label =>
        label.maxMatches.fold(lit(false))(_ => Columns.named(LabelRule.truncated(label.name)))
      })
    )
    examples.observe(
      name(options),
      count_if(isExample).as("rows"),
      SparkPlans.column(ofLabels.toAggregateExpression()).as("labels"),
      ofSample(dropped)
    )
  }

  /** Counts the impressions that the sample leaves out before they are stored, under a name of their own. */
  def arriving(impressions: DataFrame, options: ExampleOptions, dropped: (String, Column)): DataFrame =
    impressions.observe(s"${name(options)}.arriving", ofSample(Seq(dropped)))

  private def ofSample(dropped: Seq[(String, Column)]): Column = {
    val counts = dropped.map { case (predicate, isDropped) =>
      struct(lit(predicate).as("predicate"), count_if(isDropped).as("dropped"))
    }
    val all = if (counts.isEmpty) typedLit(Seq.empty[(String, Long)]) else array(counts: _*)
    all.cast(Schema("sample").dataType).as("sample")
  }
}
