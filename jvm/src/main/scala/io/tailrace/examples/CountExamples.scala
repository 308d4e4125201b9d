package io.tailrace.examples

import java.util.UUID

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{CollectMetrics, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Row}
import org.apache.spark.unsafe.Platform

import io.tailrace.common.{Mark, Policy, ProgressName}
import io.tailrace.driver.{PartitionAccumulator, PartitionValue, ReportExec}
import io.tailrace.join.{OutputRows, RowObserver}
import io.tailrace.label.{Emit, Horizons}
import io.tailrace.plan.{Columns, Obstacle, TailraceNode}

/** Counts the examples of a micro-batch as they pass. Spark's node of `observe` is slower (ADR 22).
  *
  * @param name      in `observedMetrics`
  * @param made      distinguishes this node from others of its name; a DataFrame that is used twice has it twice
  * @param isExample whether a row is counted; false before the join, where only the sample is
  * @param events    the labels' columns
  * @param truncated whether the cap has cut them
  * @param dropped   whether each predicate of the sample has left a row out
  * @param orphans   whether a row is an orphan, for each reason; empty: there are none
  */
private[tailrace] final case class CountExamples(
    name: String,
    made: UUID,
    counted: CountedNames,
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression],
    orphans: Seq[Expression],
    child: LogicalPlan
) extends UnaryNode
    with TailraceNode {
  override def operator: String = ExampleOptions.arguments.call
  override def onlyLooks: Boolean = true
  override def refusedInRecursion: Option[Obstacle] =
    Some(Obstacle(operator, "its counts would be of each hop"))

  override def output: Seq[Attribute] = child.output

  /** Two definitions that are equal give the same rows: a cached one is found by another call. */
  override protected def doCanonicalize(): LogicalPlan =
    super.doCanonicalize().asInstanceOf[CountExamples].copy(made = CountExamples.NoId)

  override protected def withNewChildInternal(newChild: LogicalPlan): CountExamples = copy(child = newChild)
}

private object CountExamples {
  val NoId = new UUID(0, 0)
}

private[tailrace] object CountExamplesStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case CountExamples(name, _, counted, isExample, events, truncated, dropped, orphans, child) =>
      val exec =
        CountExamplesExec(counted, isExample, events, truncated, dropped, orphans, planLater(child))
      ReportExec(name, exec) { case counting: CountExamplesExec => counting.report } :: Nil
    case _ => Nil
  }
}

/** The physical node of [[CountExamples]]. */
private[examples] final case class CountExamplesExec(
    counted: CountedNames,
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression],
    orphans: Seq[Expression],
    child: SparkPlan
) extends UnaryExecNode {
  override def nodeName: String = "TailraceCountExamples"
  override def simpleString(maxFields: Int): String = s"$nodeName ${counted.text}"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  @transient private lazy val counter = PartitionAccumulator.registered[ExampleCount](sparkContext)

  /** The counts of the micro-batch that has run, however many actions it had. */
  def report: Row = {
    val none = ExampleCount.none(events.size, dropped.size, orphans.size)
    counted.row(counter.value.values.foldLeft(none)(_ + _))
  }

  // An action of a batch DataFrame restarts the counts.
  override def resetMetrics(): Unit = {
    counter.reset()
    super.resetMetrics()
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val columns = CountedColumns(child.output, isExample, events, truncated, dropped, orphans)
    child.execute().mapPartitionsWithIndex(new CountedPartition(columns, counter))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): CountExamplesExec = copy(child = newChild)
}

/** One task. It extends the function type, so Spark need not clean a closure. */
private final class CountedPartition(columns: CountedColumns, counter: PartitionAccumulator[ExampleCount])
    extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val counting = new RowCounting(columns)
    // Not at the end of the rows: a limit doesn't ask for all.
    TaskContext.get().addTaskCompletionListener[Unit](_ => counter.add(index -> counting.count))
    val observed = rows match {
      case joined: OutputRows => joined
      case others => new OutputRows(others)
    }
    observed.observe(counting)
    observed
  }
}

/** The counts of a task, or of a micro-batch.
  *
  * @param seen   rows that have passed, examples or not
  * @param counts of examples; for each label, the examples that have it, its events, and the examples that its cap has
  *               cut; for each predicate of the sample, the rows that it has left out; for each label and each reason, its
  *               orphans
  */
private[examples] final case class ExampleCount(seen: Long, counts: Array[Long])
    extends PartitionValue[ExampleCount] {
  override def max(other: ExampleCount): ExampleCount = if (other.seen > seen) other else this

  def +(other: ExampleCount): ExampleCount =
    ExampleCount(seen + other.seen, counts.zip(other.counts).map { case (one, more) => one + more })
}

private[examples] object ExampleCount {

  /** Positions: that of the examples, the first of the labels, and the number per label. */
  val Examples = 0
  val FirstLabel = 1
  val OfLabel = 3

  /** @param reasons of orphans */
  def none(labels: Int, predicates: Int, reasons: Int = 0): ExampleCount =
    ExampleCount(0, new Array[Long](FirstLabel + (OfLabel + reasons) * labels + predicates))
}

/** The names of the counts.
  *
  * @param labels  none before the join, where there are impressions and no examples
  * @param reasons of orphans; empty: there are none
  */
private[examples] final case class CountedNames(
    labels: Seq[String],
    predicates: Seq[String],
    reasons: Seq[String] = Nil
) {
  import CountedNames._
  import ExampleCount._

  /** In `explain`. */
  def text: String = s"labels=[${labels.mkString(", ")}], predicates=[${predicates.mkString(", ")}]"

  /** The row in the query's progress. */
  def row(count: ExampleCount): Row = {
    val (ofLabels, others) = count.counts.toSeq.drop(FirstLabel).splitAt(OfLabel * labels.size)
    val (dropped, orphans) = others.splitAt(predicates.size)
    val sample = rows(predicates, dropped.map(Seq(_)), Sample)
    if (labels.isEmpty) new GenericRowWithSchema(Array(sample), Arriving)
    else {
      val each = rows(labels, ofLabels.grouped(OfLabel).toSeq, Label)
      val values = Array(count.counts(Examples), each, sample)
      if (reasons.isEmpty) new GenericRowWithSchema(values, Schema)
      else {
        val names = for (label <- labels; reason <- reasons) yield Seq(label, reason)
        val rows = names.zip(orphans).map { case (of, number) =>
          new GenericRowWithSchema((of :+ number).toArray, Orphan): Row
        }
        new GenericRowWithSchema(values :+ rows, WithOrphans)
      }
    }
  }

  private def rows(names: Seq[String], counts: Seq[Seq[Long]], of: StructType): Seq[Row] =
    names.zip(counts).map { case (name, values) => new GenericRowWithSchema((name +: values).toArray, of) }
}

private[tailrace] object CountedNames {
  private val Label = Seq("matched", "events", "truncated")
    .foldLeft(new StructType().add("label", StringType))(_.add(_, LongType))
  private val Sample = new StructType().add("predicate", StringType).add("dropped", LongType)
  private val Arriving = new StructType().add("sample", ArrayType(Sample))

  private val Orphan =
    new StructType().add("label", StringType).add("reason", StringType).add("rows", LongType)

  val Schema: StructType =
    new StructType().add("rows", LongType).add("labels", ArrayType(Label)).add("sample", ArrayType(Sample))
  val WithOrphans: StructType = Schema.add("orphans", ArrayType(Orphan))
}

/** The expressions of [[CountExamples]] over rows with the columns `input`. */
private[examples] final case class CountedColumns(
    input: Seq[Attribute],
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression],
    orphans: Seq[Expression] = Nil
)

/** Counts the rows of a task. */
private[examples] final class RowCounting(columns: CountedColumns) extends RowObserver {
  import ExampleCount._
  import columns._

  private val example = new Asked(isExample)
  private val arrays = events.map(e => new LabelArray(BindReferences.bindReference(e, input))).toArray
  private val caps = truncated.map(new Asked(_)).toArray
  private val drops = dropped.map(new Asked(_)).toArray
  private val reasons = orphans.map(new Asked(_)).toArray
  private val firstDrop = FirstLabel + OfLabel * arrays.length
  private val firstOrphan = firstDrop + drops.length
  private val counts = none(arrays.length, drops.length, reasons.length).counts
  private var seen = 0L

  def count: ExampleCount = ExampleCount(seen, counts)

  override def see(row: InternalRow): Unit = {
    seen += 1
    if (example.holds(row)) seeExample(row)
    else if (reasons.length > 0) seeOrphan(row)
    var i = 0
    while (i < drops.length) {
      if (drops(i).holds(row)) counts(firstDrop + i) += 1
      i += 1
    }
  }

  /** A row may be an event of several labels. */
  private def seeOrphan(row: InternalRow): Unit = {
    val reason = reasons.indexWhere(_.holds(row))
    if (reason >= 0) arrays.indices.foreach { label =>
      if (arrays(label).size(row) > 0) counts(firstOrphan + label * reasons.length + reason) += 1
    }
  }

  private def seeExample(row: InternalRow): Unit = {
    counts(Examples) += 1
    var at = FirstLabel
    var i = 0
    while (i < arrays.length) {
      val size = arrays(i).size(row)
      if (size > 0) {
        counts(at) += 1
        counts(at + 1) += size
      }
      if (caps(i).holds(row)) counts(at + 2) += 1
      at += OfLabel
      i += 1
    }
  }

  /** True if an expression is true for a row. Most are the same for all rows. */
  private final class Asked(of: Expression) {
    private val always = of match {
      case Literal(value, BooleanType) => Some(value == true)
      case _ => None
    }
    private val fixed = always.isDefined
    private val value = always.contains(true)
    private val bound = BindReferences.bindReference(of, input)

    def holds(row: InternalRow): Boolean = if (fixed) value else bound.eval(row) == true
  }
}

/** The number of a label's events in a row, mostly none. A column of an unsafe row is read in place, without
  * making an array of it.
  */
private final class LabelArray(events: Expression) {
  private val column = events match {
    case BoundReference(place, _, _) => place
    case _ => -1
  }

  /** Null before the label's `since`: none. */
  def size(row: InternalRow): Int = row match {
    case unsafe: UnsafeRow if column >= 0 =>
      if (unsafe.isNullAt(column)) 0
      else {
        val at = unsafe.getBaseOffset + (unsafe.getLong(column) >>> 32)
        Platform.getLong(unsafe.getBaseObject, at).toInt
      }
    case _ =>
      events.eval(row) match {
        case array: ArrayData => array.numElements()
        case _ => 0
      }
  }
}

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
  def isMarked(options: ExampleOptions, labels: Seq[ExampleLabel]): Column = {
    val mark = Columns.named(Mark.Column)
    // An example without the events of a stream is one all the same.
    val mayExclude = labels.exists(_.stall(options).policy == Policy.Exclude)
    if (!options.hasMarks) lit(false)
    else if (mayExclude) mark.isNotNull && mark =!= lit(Mark.Excluded.reason)
    else mark.isNotNull
  }

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
    val notMarked = if (options.hasMarks) !isMarked(options, labels) else lit(true)
    // An example is counted once. With "late_positives", not each has a final version that is emitted.
    val isOnce = options.horizons.nonEmpty && options.emit != Emit.LatePositives.name
    val isExample = if (isOnce) notMarked && Columns.named(Horizons.Final) else notMarked
    val caps = labels.map { label =>
      label.maxMatches.fold(lit(false))(_ => Columns.named(LabelRule.truncated(label.name)))
    }
    counted(
      examples,
      name(options),
      isExample,
      labels.map(_.name),
      caps,
      dropped,
      if (options.orphans) Mark.orphans.map(_.reason) else Nil
    )
  }

  /** Counts the impressions that the sample leaves out before they are stored, under a name of their own. */
  def arriving(impressions: DataFrame, options: ExampleOptions, dropped: (String, Column)): DataFrame =
    counted(impressions, s"${name(options)}.arriving", lit(false), Nil, Nil, Seq(dropped), Nil)

  private def counted(
      rows: DataFrame,
      name: String,
      isExample: Column,
      labels: Seq[String],
      caps: Seq[Column],
      dropped: Seq[(String, Column)],
      reasons: Seq[String]
  ): DataFrame = {
    def expressions(columns: Seq[Column]) = columns.map(SparkPlans.expression)
    val counts = CountExamples(
      name,
      UUID.randomUUID,
      CountedNames(labels, dropped.map(_._1), reasons),
      SparkPlans.expression(isExample),
      expressions(labels.map(Columns.named)),
      expressions(caps),
      expressions(dropped.map(_._2)),
      expressions(reasons.map(reason => Columns.named(Mark.Column) <=> lit(reason))),
      SparkPlans.analyzed(rows)
    )
    SparkPlans.toFrame(SparkPlans.session(rows), counts)
  }
}
