package io.tailrace.recursion

import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types._

import io.tailrace.common.{OwnNames, ProgressName, UnsafeRows}
import io.tailrace.driver.{PartitionAccumulator, ReportExec}

/** The places of the columns that the recursion itself reads in a row that is fed back.
  *
  * @param all   the user's columns, then the recursion's own
  * @param keys  ordinals of the columns that identify a row, for errors
  * @param depth ordinal of the hop, if the row has it
  * @param path  ordinal of the keys that the row has had so far
  * @param cycle ordinal of the flag that the last of these keys is there twice
  */
final case class RoundColumns(
    all: Seq[Attribute],
    keys: Seq[Int],
    depth: Option[Int] = None,
    path: Option[Int] = None,
    cycle: Option[Int] = None
)

private[recursion] object RoundColumns {
  val Depth: String = OwnNames.of("depth")
  val Path: String = OwnNames.of("path")
  val Cycle: String = OwnNames.of("cycle")

  /** Columns that the user hasn't named. */
  val Own: Set[String] = Set(Depth, Path, Cycle)
}

/** The rules that all tasks of a recursion share.
  *
  * @param addsDepth whether the hop is appended to a row's columns when it is emitted
  */
private[recursion] final class RecursionRules(
    val settings: RecursionSettings,
    val columns: RoundColumns,
    addsDepth: Boolean,
    zone: String,
    val sink: HopSink
) extends Serializable {
  private val cycle = columns.cycle.getOrElse(-1)

  def closesCycle(row: UnsafeRow): Boolean = cycle >= 0 && row.getBoolean(cycle)

  def sample(): RowSample = new RowSample(columns, zone)

  def toUnsafe(): InternalRow => UnsafeRow = new UnsafeRows(columns.all)

  def withDepth(): (UnsafeRow, Int) => InternalRow =
    if (!addsDepth) (row, _) => row
    else {
      val schema = new StructType().add("depth", IntegerType, nullable = false)
      val joiner = GenerateUnsafeRowJoiner.create(DataTypeUtils.fromAttributes(columns.all), schema)
      val depth = new UnsafeRow(1)
      depth.pointTo(new Array[Byte](16), 16)
      (row, hop) => {
        depth.setInt(0, hop)
        joiner.join(row, depth)
      }
    }

  /** The error of a verdict that is one.
    *
    * @param tooDeep names the rows of the hop before, which each way round knows by its own means
    */
  def error(verdict: Verdict, depth: Int, row: UnsafeRow, tooDeep: => Throwable): Throwable = verdict match {
    case Verdict.TooDeep => tooDeep
    case Verdict.TooMany =>
      RecursionErrors.tooManyRows(settings.maxRows.get, depth, Seq(sample().keys(row)))
    case Verdict.Cycle => RecursionErrors.cycle(sample().path(row))
    case _ => RecursionErrors.runaway(settings.name, depth - 1, sample().keys(row))
  }
}

/** Rows as texts, for errors. */
private[recursion] final class RowSample(columns: RoundColumns, zone: String) {
  private def text(ordinal: Int): Expression =
    ToPrettyString(BoundReference(ordinal, columns.all(ordinal).dataType, nullable = true), Some(zone))

  private lazy val keyTexts = UnsafeProjection.create(columns.keys.map(text))
  private lazy val pathText = UnsafeProjection.create(columns.path.map(text).toSeq)

  def keys(row: UnsafeRow): String = {
    val texts = keyTexts(row)
    columns.keys.zipWithIndex
      .map { case (key, i) => s"${columns.all(key).name}=${texts.getUTF8String(i)}" }
      .mkString(", ")
  }

  def path(row: UnsafeRow): String = pathText(row).getUTF8String(0).toString
}

private[recursion] object RowSample {

  /** The most rows that an error names: people read it. */
  val Rows = 3
}

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
