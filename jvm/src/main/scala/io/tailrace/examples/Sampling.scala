package io.tailrace.examples

import java.util.Locale

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Attribute, Literal}
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Dataset}

import io.tailrace.common.{OwnNames, Policy}
import io.tailrace.label.NegativeBalance
import io.tailrace.plan.Columns
import io.tailrace.plan.Columns.named

/** Keeps a share of the examples, by predicates over the finished row. The choice depends on key, time and
  * seed alone: a restart, a retry, and a batch job over the same data choose the same rows.
  *
  * {{{
  *   sample({"size(click) = 0": 0.1})       hash of (user 1, 12:00, seed) as a number of [0, 1)     weight
  *   (user 1, 12:00, click = [])            0.07 < 0.1: emitted                                     10.0
  *   (user 2, 12:00, click = [])            0.53: left out                                          -
  *   (user 3, 12:00, click = [12:03])       emitted: no predicate holds                             1.0
  * }}}
  */
private[tailrace] final class Sampling(
    sample: ExampleSample,
    options: ExampleOptions,
    labels: Seq[ExampleLabel]
) {
  import ExampleOptions.arguments
  import Sampling._

  if (sample.ratio.isEmpty) {
    if (sample.rates.isEmpty) {
      val allowed = "one predicate or more, each with its rate, such as {\"size(click) = 0\": 0.1}"
      throw arguments.invalid("rates", "{}", s"$allowed, or none with `ratio`")
    }
    sample.over.foreach(given => throw arguments.needs("over", given, "ratio"))
    sample.start.foreach(given => throw arguments.needs("start", given, "ratio"))
  }

  /** @param count counts rows, with whether each predicate has left them out */
  def of(examples: DataFrame)(count: (DataFrame, Seq[(String, Column)]) => DataFrame): DataFrame = {
    check(examples)
    // A late row that is emitted marked is no example, and no sample leaves it out. An amended one is sampled by its
    // new group, with the hash that the example had.
    val isLate = ExampleCounts.isMarked(options, labels) && !ExampleCounts.isAmended(options)
    val (rows, cases) = if (sample.ratio.isEmpty) (examples, ofRates) else ofRatio(examples, !isLate)
    val place = cases.zipWithIndex.foldRight(lit(0)) { case ((one, i), rest) =>
      when(one.holds, lit(i + 1)).otherwise(rest)
    }
    val placed = rows.withColumn(Place, when(isLate, lit(0)).otherwise(place))
    val rate = element_at(array(lit(1.0) +: cases.map(_.rate): _*), named(Place) + 1)
    val chosen = placed.withColumn(Rate, rate).withColumn(Chosen, share(examples) < named(Rate))
    val dropped = cases.zipWithIndex.map { case (one, i) =>
      one.predicate -> (named(Place) === lit(i + 1) && !named(Chosen) && !ExampleCounts.isAmended(options))
    }
    count(chosen, dropped)
      .filter(named(Chosen))
      .withColumn(sample.weight, when(!isLate, lit(1.0) / named(Rate)))
      .drop(Place, Rate, Chosen, NegativeBalance.Rate)
  }

  private def ofRates: Seq[SampleCase] = sample.rates.map { case (predicate, rate) =>
    SampleCase(predicate, expr(predicate), lit(rate))
  }

  /** The rows with the rates of their partitions. */
  private def ofRatio(examples: DataFrame, isExample: Column): (DataFrame, Seq[SampleCase]) = {
    val sameName = SparkPlans.session(examples).sessionState.conf.resolver
    val ratio = new SampleRatio(sample, options, labels, sameName)
    val negatives = SampleCase(ratio.predicate, ratio.isNegative, named(NegativeBalance.Rate))
    (ratio.withRates(examples, isExample), Seq(negatives))
  }

  /** Leaves out impressions before they are stored, where the labels can't change that: the first predicate is `true`.
    * Those that stay are tested again, with the same result.
    *
    * @param frames of the labels
    */
  def ofArriving(impressions: Dataset[_], frames: Seq[Dataset[_]]): Dataset[_] =
    sample.rates.headOption match {
      case Some((predicate, rate))
          if isAlways(impressions, predicate) && !isNeeded && hasSameKeys(impressions, frames) =>
        val all = impressions.toDF()
        val chosen = all.withColumn(Chosen, share(all) < rate)
        ExampleCounts
          .arriving(chosen, options, predicate -> !named(Chosen))
          .filter(named(Chosen))
          .drop(Chosen)
      case _ => impressions
    }

  private def isAlways(impressions: Dataset[_], predicate: String): Boolean = {
    val columns = impressions.columns.toSeq ++ labels.map(_.name)
    Conditions.read(arguments.call, "rates", predicate, columns)(
      SparkPlans.expression(expr(predicate))
    ) == Literal.TrueLiteral
  }

  /** True if each impression is needed: late ones are emitted marked, a touch shares the events of others, and an event
    * whose impression isn't there is an orphan.
    */
  private def isNeeded: Boolean =
    options.onLate == Policy.Mark.name || options.orphans || labels.exists(_.attribution.nonEmpty)

  /** True if the keys of an impression are the same values when it is emitted: a label may widen their types. */
  private def hasSameKeys(impressions: Dataset[_], frames: Seq[Dataset[_]]): Boolean =
    labels.zip(frames).forall { case (label, frame) =>
      label.on.forall { case (left, right) =>
        val types = Seq(typeOf(impressions, left), typeOf(frame, right))
        types.forall(_.size == 1) && types.head == types.last
      }
    } && typeOf(impressions, options.time).size == 1

  private def typeOf(frame: Dataset[_], column: String): Seq[DataType] = {
    val sameName = SparkPlans.session(frame).sessionState.conf.resolver
    SparkPlans.analyzed(frame).output.filter(a => sameName(a.name, column)).map(a => hashed(a.dataType))
  }

  /** A number of [0, 1): the 53 bits that a double holds. */
  private def share(examples: DataFrame): Column = {
    val hash = xxhash64(((keys(examples).map(wide) :+ named(options.time)) :+ lit(sample.seed)): _*)
    shiftrightunsigned(hash, 64 - Bits).cast("double") * lit(1.0 / (1L << Bits))
  }

  /** The key columns of all labels, whatever the order of labels and of their keys. */
  private def keys(examples: DataFrame): Seq[Attribute] = {
    val sameName = SparkPlans.session(examples).sessionState.conf.resolver
    val names = labels.flatMap(_.on.map(_._1))
    SparkPlans
      .analyzed(examples)
      .output
      .filter(column => names.exists(sameName(_, column.name)))
      .sortBy(column => (column.name.toLowerCase(Locale.ROOT), column.name))
  }

  /** Equal numbers of two types are hashed as one: a label may have widened the key. */
  private def wide(key: Attribute): Column = named(key.name).cast(hashed(key.dataType))

  private def hashed(key: DataType): DataType = key match {
    case ByteType | ShortType | IntegerType => LongType
    case FloatType => DoubleType
    case other => other
  }

  private def isCondition(examples: DataFrame, predicate: String): Boolean =
    Conditions.read(arguments.call, "rates", predicate, examples.columns.toSeq)(
      SparkPlans.analyzed(examples.select(expr(predicate)))
    ) match {
      case Project(Seq(one), _) => one.dataType == BooleanType && Conditions.isFixed(one)
      case _ => false
    }

  private def check(examples: DataFrame): Unit = {
    sample.rates.foreach { case (predicate, rate) =>
      // NaN is neither.
      if (!(rate >= 0 && rate <= 1)) throw arguments.invalid("the rate of " + predicate, rate, "0 to 1")
      if (!isCondition(examples, predicate)) {
        val allowed = "a condition on the columns of a row whose value is the same each time it is evaluated"
        throw arguments.invalid("rates", predicate, allowed)
      }
    }
    val sameName = SparkPlans.session(examples).sessionState.conf.resolver
    new Columns(arguments, SparkPlans.analyzed(examples).output, sameName, "the examples")
      .checkAdded(sample.weight, s"Choose another name than '${sample.weight}' for `weight`.")
  }
}

/** Rows of a sample that have one rate.
  *
  * @param predicate in the query's progress
  * @param holds     whether a row is one of them
  */
private final case class SampleCase(predicate: String, holds: Column, rate: Column)

private object Sampling {

  /** The first names of the columns that its predicates use.
    *
    * @param columns that they may name
    */
  def asked(sample: ExampleSample, columns: Seq[String]): Seq[String] =
    sample.rates.flatMap { case (predicate, _) =>
      val call = ExampleOptions.arguments.call
      Conditions
        .read(call, "rates", predicate, columns)(SparkPlans.expression(expr(predicate)))
        .collect { case a: UnresolvedAttribute => a.nameParts.head }
    }

  private val Bits = 53
  private val Place = OwnNames.of("place")
  private val Rate = OwnNames.of("rate")
  private val Chosen = OwnNames.of("chosen")
}

/** Processes the joined rows: counts and samples them, and adds their features.
  *
  * {{{
  *   joined ──> counts ──> sample ──> features          a row that the sample leaves out needs no features
  *   joined ──> features ──> counts ──> sample          where a predicate of the sample names features
  * }}}
  */
private[tailrace] final class Finish(
    options: ExampleOptions,
    labels: Seq[ExampleLabel],
    features: Seq[ExampleFeatures]
) {

  def of(joined: DataFrame)(withFeatures: DataFrame => DataFrame): DataFrame = {
    if (needsFeatures(joined)) {
      // An amended row has no features.
      options.amendFor.foreach { length =>
        val reason = "a predicate of the sample names features, which amended rows haven't"
        throw ExampleOptions.arguments.conflict("amend_for", length, "rates", reason)
      }
      sampled(withFeatures(joined))
    } else withoutFeaturesOfAmended(withFeatures(sampled(joined)))
  }

  /** An amended row is late, or close to the watermark: whether features would still be found is a matter of chance. */
  private def withoutFeaturesOfAmended(rows: DataFrame): DataFrame =
    if (options.amendFor.isEmpty) rows
    else
      features.foldLeft(rows) { (frame, one) =>
        frame.withColumn(one.name, when(!ExampleCounts.isAmended(options), Columns.named(one.name)))
      }

  /** The impressions that are joined at all.
    *
    * @param frames of the labels
    */
  def arriving(impressions: Dataset[_], frames: Seq[Dataset[_]]): Dataset[_] =
    options.sample.fold[Dataset[_]](impressions)(
      new Sampling(_, options, labels).ofArriving(impressions, frames)
    )

  private def sampled(rows: DataFrame): DataFrame =
    options.sample.fold(ExampleCounts.add(rows, options, labels, Nil)) { sample =>
      new Sampling(sample, options, labels).of(rows)(ExampleCounts.add(_, options, labels, _))
    }

  private def needsFeatures(joined: DataFrame): Boolean = options.sample.exists { sample =>
    Sampling
      .asked(sample, joined.columns.toSeq)
      .exists(name => features.exists(_.name.equalsIgnoreCase(name)))
  }
}
