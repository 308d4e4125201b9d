package io.tailrace.recursion

import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types._

import io.tailrace.common.ProgressName
import io.tailrace.driver.{PartitionAccumulator, ReportExec}

/** The counts of a recursion in the query's progress. */
object HopReport {

  /** The most iterations that the progress lists: people read it. */
  private val Named = 100

  private val HopSchema =
    new StructType().add("hop", IntegerType).add("rows", LongType).add("ms", DoubleType)

  val Schema: StructType = new StructType()
    .add("mode", StringType)
    .add("rows", LongType)
    .add("fedBack", LongType)
    .add("deepest", IntegerType)
    .add("stopped", LongType)
    .add("cycles", LongType)
    .add("hops", ArrayType(HopSchema))

  /** The name of a recursion's counts in `observedMetrics`. */
  def name(settings: RecursionSettings): String =
    ProgressName("recursion", settings.name, RecursionOptions.Name)

  def row(mode: RecursionMode, counts: HopCounts): Row = {
    import counts._
    val named = hops.take(Math.min(Named, deepest)).zipWithIndex.map { case (hop, i) =>
      new GenericRowWithSchema(Array(i + 1, hop.rows, hop.nanos / 1e6), HopSchema)
    }
    new GenericRowWithSchema(Array(mode.name, rows, fedBack, deepest, stopped, cycles, named), Schema)
  }
}

/** An operator whose hops are counted. */
trait CountsHops extends SparkPlan {
  def settings: RecursionSettings
  def mode: RecursionMode

  @transient private[recursion] lazy val counter: PartitionAccumulator[HopCounts] =
    PartitionAccumulator.registered(sparkContext)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "fedBackRows" -> SQLMetrics.createMetric(sparkContext, "rows fed back"),
    "stoppedRows" -> SQLMetrics.createMetric(sparkContext, "rows stopped by a limit"),
    "cycles" -> SQLMetrics.createMetric(sparkContext, "rows that closed a cycle")
  )

  private[recursion] def hopSink: HopSink = new HopSink(counter, metrics)

  /** The counts of the micro-batch that has run, however many actions it had. */
  def counts: HopCounts = counter.value.values.foldLeft(HopCounts())(_ + _)

  /** This operator, with its counts in the query's progress. */
  def reporting: ReportExec = ReportExec(HopReport.name(settings), this) { case r: CountsHops =>
    HopReport.row(r.mode, r.counts)
  }
}

/** Takes the counts of a task, or of the driver. */
private[recursion] final class HopSink(
    counter: PartitionAccumulator[HopCounts],
    metrics: Map[String, SQLMetric]
) extends Serializable {

  /** @param index the task's partition, or [[PartitionAccumulator.Driver]] */
  def report(index: Int, counts: HopCounts): Unit = {
    counter.add(index -> counts)
    metrics("numOutputRows") += counts.rows
    metrics("fedBackRows") += counts.fedBack
    metrics("stoppedRows") += counts.stopped
    metrics("cycles") += counts.cycles
  }
}

/** Warns of a recursion without a limit that continues for many hops or rows: it may never end. One watch is
  * for the rows that are counted together. Each threshold warns once.
  */
private[recursion] final class RunawayWatch(settings: RecursionSettings) extends Logging {
  import RunawayWatch._

  private var hops: Long = settings.maxDepth.fold(Hops)(_ => Long.MaxValue)
  private var rows: Long = settings.maxRows.fold(Rows)(_ => Long.MaxValue)

  /** @param sample a row that is fed back, as text */
  def look(depth: Int, seen: Long, sample: => String): Unit = {
    val more = if (depth >= hops) Some(s"$depth hops") else Option.when(seen >= rows)(s"$seen rows")
    more.foreach { much =>
      while (depth >= hops) hops *= Factor
      while (seen >= rows) rows *= Factor
      logWarning(
        s"TAILRACE_RECURSION_LONG: the recursion '${settings.name}' has made $much of a micro-batch's " +
          s"rows, and goes on, for instance with $sample. If that is a loop: max_depth and max_rows end it, " +
          "path_columns finds cycles"
      )
    }
  }
}

private object RunawayWatch {
  private val Hops = 1000L
  private val Rows = 10L * 1000 * 1000
  val Factor = 10

  /** Micro-batches in a row. */
  val Rounds = 1000L
}

/** Warns when rows have gone round in many micro-batches without a pause. A stream that never pauses always
  * has rows in flight, so this isn't an error.
  */
private[recursion] final class RoundsWatch(settings: RecursionSettings) extends Logging {
  private var batches = 0L
  private var threshold = RunawayWatch.Rounds

  def rest(): Unit = batches = 0

  /** A batch has fed rows back. */
  def again(): Unit = {
    batches += 1
    if (batches >= threshold) {
      threshold *= RunawayWatch.Factor
      logWarning(
        s"TAILRACE_RECURSION_LONG: rows of the recursion '${settings.name}' have gone round in $batches " +
          "micro-batches in a row. If the input alone doesn't explain it, that is a loop: max_depth ends " +
          "it, path_columns finds cycles"
      )
    }
  }
}
