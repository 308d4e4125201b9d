package io.tailrace.examples

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import io.tailrace.driver.PartitionValue
import io.tailrace.join.RowObserver

/** The counts of a task, or of a micro-batch.
  *
  * @param seen   rows that have passed, examples or not
  * @param counts of examples; for each label, the examples that have it, its events, and the examples that its cap has
  *               cut; for each predicate of the sample, the rows that it has left out
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

  def none(labels: Int, predicates: Int): ExampleCount =
    ExampleCount(0, new Array[Long](FirstLabel + OfLabel * labels + predicates))
}

/** The names of the counts.
  *
  * @param labels none before the join, where there are impressions and no examples
  */
private[examples] final case class CountedNames(labels: Seq[String], predicates: Seq[String]) {
  import CountedNames._
  import ExampleCount._

  /** In `explain`. */
  def text: String = s"labels=[${labels.mkString(", ")}], predicates=[${predicates.mkString(", ")}]"

  /** The row in the query's progress. */
  def row(count: ExampleCount): Row = {
    val (ofLabels, dropped) = count.counts.toSeq.drop(FirstLabel).splitAt(OfLabel * labels.size)
    val sample = rows(predicates, dropped.map(Seq(_)), Sample)
    if (labels.isEmpty) new GenericRowWithSchema(Array(sample), Arriving)
    else {
      val each = rows(labels, ofLabels.grouped(OfLabel).toSeq, Label)
      new GenericRowWithSchema(Array(count.counts(Examples), each, sample), Schema)
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

  val Schema: StructType =
    new StructType().add("rows", LongType).add("labels", ArrayType(Label)).add("sample", ArrayType(Sample))
}

/** The expressions of [[CountExamples]] over rows with the columns `input`. */
private[examples] final case class CountedColumns(
    input: Seq[Attribute],
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression]
)

/** Counts the rows of a task. */
private[examples] final class RowCounting(columns: CountedColumns) extends RowObserver {
  import ExampleCount._
  import columns._

  private val example = new Asked(isExample)
  private val arrays = events.map(e => new LabelArray(BindReferences.bindReference(e, input))).toArray
  private val caps = truncated.map(new Asked(_)).toArray
  private val drops = dropped.map(new Asked(_)).toArray
  private val firstDrop = FirstLabel + OfLabel * arrays.length
  private val counts = none(arrays.length, drops.length).counts
  private var seen = 0L

  def count: ExampleCount = ExampleCount(seen, counts)

  override def see(row: InternalRow): Unit = {
    seen += 1
    if (example.holds(row)) seeExample(row)
    var i = 0
    while (i < drops.length) {
      if (drops(i).holds(row)) counts(firstDrop + i) += 1
      i += 1
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
