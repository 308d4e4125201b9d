package io.tailrace.watermark

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.tailrace.{OutputWatermark, StreamWatermarks, StreamingBatch}
import org.apache.spark.sql.types._

import io.tailrace.common.{SparkWatermark, UnsafeRows}
import io.tailrace.plan.{Columns, Obstacle, OwnColumns, SqlFunction, TailraceNode}

/** The logical node of `tailrace.stamp_watermark`.
  *
  * @param stamp the new column
  */
case class StampWatermark(stamp: Attribute, child: LogicalPlan) extends UnaryNode with TailraceNode {
  override def operator: String = "tailrace.stamp_watermark"
  override def keepsBatches: Boolean = false
  override def dropsRows: Boolean = false

  override def refusedInRecursion: Option[Obstacle] =
    Some(Obstacle("stamp_watermark", "a row that goes round would keep an old stamp"))

  override def output: Seq[Attribute] = child.output :+ stamp
  override def producedAttributes: AttributeSet = AttributeSet(stamp)
  override protected def withNewChildInternal(newChild: LogicalPlan): StampWatermark = copy(child = newChild)
}

object StampWatermarkStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case s: StampWatermark =>
      // A DataFrame that is used twice is one source.
      val sources = s.child.collect { case p: HostProgress => p.settings }.distinctBy(_.name)
      StampWatermarkExec(s.stamp, sources, s.isStreaming, planLater(s.child)) :: Nil
    case _ => Nil
  }
}

/** Adds a low watermark to each row, the same to all rows of a micro-batch.
  *
  * No row of this batch or of a later one is before it, unless its host lags. Operators with state release
  * rows with a delay of one batch, and the low watermark allows for it. With a watermark server it isn't
  * after the low watermark of any sink of the application.
  *
  * @param sources   the accurate watermarks below
  * @param streaming rows of a batch DataFrame get null
  */
final case class StampWatermarkExec(
    stamp: Attribute,
    sources: Seq[ProgressSettings],
    streaming: Boolean,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output :+ stamp
  override def producedAttributes: AttributeSet = AttributeSet(stamp)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    rows.mapPartitions(new StampPartition(child.output, if (streaming) stampNow else null))
  }

  private def stampNow: Array[Byte] = {
    val batch = StreamingBatch.current(session)
    val low = OutputWatermark
      .ofRows(child, batch.watermarkMs, batch.previousWatermarkMs)
      .fold(SparkWatermark.Never)(SparkWatermark.after)
    val watermarks = sources.map(SourceWatermark.of(session, _))
    val completeness = watermarks.map(_.completeness(batch.batchId))
    // Other queries may write to the same topic: it isn't complete before they have written their rows.
    val global = watermarks.flatMap(_.globalLow(batch.batchId))
    WatermarkStamp.encode((low +: global).min, completeness.foldLeft(Completeness.Whole)(_ andThen _).units)
  }

  override protected def withNewChildInternal(child: SparkPlan): StampWatermarkExec = copy(child = child)
}

/** One task. It extends a function type, so that Spark doesn't search it for closures.
  *
  * @param stamp null for no stamp
  */
private[watermark] final class StampPartition(columns: Seq[Attribute], stamp: Array[Byte])
    extends (Iterator[InternalRow] => Iterator[InternalRow])
    with Serializable {

  override def apply(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val schema = new StructType().add("stamp", BinaryType)
    val toUnsafe = new UnsafeRows(columns)
    val joiner = GenerateUnsafeRowJoiner.create(DataTypeUtils.fromAttributes(columns), schema)
    val added = UnsafeProjection.create(schema)(InternalRow(stamp)).copy()
    rows.map(row => joiner.join(toUnsafe(row), added))
  }
}

/** Checks that the completeness of all watermarks of a DataFrame is known.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class StampResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  def resolve(into: String): LogicalPlan = {
    new Columns(WatermarkOptions.stamp, child.output, sameName)
      .checkAdded(into, s"Choose another name than '$into' for `into`.")
    if (child.isStreaming) {
      val watermarks = StreamWatermarks.nodesIn(child)
      val accurate = child.collect { case p: HostProgress => p.nodeId }.toSet
      if (watermarks.isEmpty || watermarks != accurate) throw WatermarkErrors.stampSource()
    }
    OwnColumns.renewable(StampWatermark(AttributeReference(into, BinaryType)(), child))
  }
}

/** `parse_watermark_stamp(binary)`: a struct of `low_watermark`, which may be null, and `completeness`. The
  * result is null if the bytes aren't a [[WatermarkStamp]].
  */
case class ParseWatermarkStamp(stamp: Expression)
    extends Expression
    with RuntimeReplaceable
    with ImplicitCastInputTypes {
  override def children: Seq[Expression] = Seq(stamp)
  override def inputTypes: Seq[DataType] = Seq(BinaryType)
  override def prettyName: String = "parse_watermark_stamp"

  override lazy val replacement: Expression =
    StaticInvoke(ParseWatermarkStamp.getClass, ParseWatermarkStamp.Schema, "parse", children, inputTypes)

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(c(0))
}

object ParseWatermarkStamp {
  private val Schema = new StructType()
    .add("low_watermark", TimestampType)
    .add("completeness", DecimalType(19, 18), nullable = false)

  /** Called by generated code. */
  def parse(stamp: Array[Byte]): InternalRow =
    if (!WatermarkStamp.isValid(stamp)) null
    else {
      val low = WatermarkStamp.low(stamp)
      val share = Decimal(WatermarkStamp.share(stamp), 19, 18)
      InternalRow(if (low == SparkWatermark.Never) null else low, share)
    }
}

/** Registers the SQL function. */
object WatermarkFunctions {
  val parseStamp: SqlFunction.Description = SqlFunction(
    classOf[ParseWatermarkStamp],
    "parse_watermark_stamp(stamp)",
    "A struct of low_watermark and completeness; null if the bytes aren't a stamp."
  ) { case Seq(stamp) => ParseWatermarkStamp(stamp) }
}
