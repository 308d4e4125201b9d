package io.tailrace.examples

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.tailrace.{MemoryStream, SparkPlans}

import io.tailrace.api.Tailrace
import io.tailrace.common.{Policy, TailraceAnalysisException, TimeSpan}
import io.tailrace.explain.StreamKind
import io.tailrace.join.OnStall
import io.tailrace.label.{LabelJoin, LabelStream}
import io.tailrace.testkit.{Engaged, Served, SparkSuite}

/** Which streams of a definition are watched, by which policy, and for how long each may be idle. */
final class WatchedStreamsSuite extends SparkSuite {
  import spark.implicits._

  private val second = 1000L
  private val minute = 60 * second
  private lazy val impressions = MemoryStream[Served](spark).toDF().withWatermark("t", "0 seconds")
  private lazy val (clicks, orders, profiles) = (rights(), rights(), rights())

  private def rights(): DataFrame = MemoryStream[Engaged](spark).toDF().withWatermark("rt", "0 seconds")

  private def label(name: String, after: String = "10 seconds"): ExampleLabel =
    ExampleLabel(name, time = "rt", on = Seq("k" -> "k"), after = after)

  private val excluding = Some("exclude")
  private val profile = ExampleFeatures("profile", time = "rt", on = Seq("k" -> "k"))
  private val options = ExampleOptions("t")

  private def watched(
      options: ExampleOptions,
      labels: Seq[(DataFrame, ExampleLabel)],
      features: Option[ExampleFeatures] = None
  ): Seq[LabelStream] = {
    val examples = Tailrace.examples(impressions, options, features.map(profiles -> _).toSeq)(labels: _*)
    val join = SparkPlans.analyzed(examples).collectFirst { case join: LabelJoin => join }.get
    join.settings.streams.get.streams
  }

  /** The policy of labels that have one DataFrame. */
  private def together(labels: ExampleLabel*): OnStall = {
    val Seq(one) = watched(options, labels.map(clicks -> _)): @unchecked
    one.onStall
  }

  test("a label without a policy is waited for, and named after a minute; features aren't watched") {
    val found = watched(options, Seq(clicks -> label("click"), orders -> label("buy")), Some(profile))
    assert(found.map(_.labels) == Seq(Seq("click"), Seq("buy")))
    assert(found.map(_.onStall).distinct == Seq(OnStall(Policy.Pause, minute)))
    assert(found.map(_.kind).distinct == Seq(StreamKind.Label))
  }

  test("what a label says of itself precedes what is said for all") {
    val all = options.copy(onStall = "fail", stallAfter = Some("5 minutes"))
    val own = label("click").copy(onStall = Some("pause"), stallAfter = Some("2 minutes"))
    val found = watched(all, Seq(clicks -> own, orders -> label("buy")))
    assert(found.map(_.onStall) == Seq(OnStall(Policy.Pause, 2 * minute), OnStall(Policy.Fail, 5 * minute)))
  }

  test(
    "labels of one stream: it fails if one says so, after the time of that one, and is excluded if all say so"
  ) {
    val fails = label("buy").copy(onStall = Some("fail"), stallAfter = Some("3 minutes"))
    val later = fails.copy(name = "order", stallAfter = Some("4 minutes"))
    val waits = label("click").copy(stallAfter = Some("1 second"))
    val lacks = label("view").copy(onStall = excluding, stallAfter = Some("2 seconds"))
    assert(together(waits, fails, lacks, later) == OnStall(Policy.Fail, 3 * minute))
    assert(together(lacks, waits) == OnStall(Policy.Pause, second))
    assert(
      together(lacks, lacks.copy(name = "like", stallAfter = Some("5 seconds"))) ==
        OnStall(Policy.Exclude, 2 * second)
    )
  }

  test("an example needs an excluded stream as far as the longest window of its labels") {
    val found = watched(
      options.copy(onStall = "exclude", stallAfter = Some("1 minute")),
      Seq(clicks -> label("soon"), clicks -> label("day", "1 day"), orders -> label("buy", "1 hour")),
      Some(profile)
    )
    val hour = 3600L * 1000 * 1000
    assert(found.map(_.after) == Seq(Some(24 * hour), Some(hour), None))
  }

  test("features are watched with a time, and never excluded: those of all streams' policy are waited for") {
    def of(options: ExampleOptions, features: ExampleFeatures): Option[OnStall] =
      watched(options, Seq(clicks -> label("click")), Some(features))
        .find(_.kind == StreamKind.Features)
        .map(_.onStall)
    val after = Some(TimeSpan("90 seconds"))
    val waited = Some(OnStall(Policy.Pause, 90 * second))
    assert(of(options.copy(onStall = "exclude", stallAfter = after), profile) == waited)
    assert(of(options, profile.copy(stallAfter = after)) == waited)
    val fails = Some(OnStall(Policy.Fail, 90 * second))
    assert(of(options.copy(onStall = "fail", stallAfter = after), profile) == fails)
    assert(of(options.copy(stallAfter = after), profile.copy(onStall = Some("fail"))) == fails)
    checkRefused("TAILRACE_EXAMPLES_EXCLUDES_FEATURES", "features" -> "profile") {
      of(options.copy(stallAfter = after), profile.copy(onStall = excluding))
    }
  }

  test("versions of an example exclude no stream") {
    val versions = options.copy(horizons = Seq("5 seconds"), stallAfter = Some("1 minute"))
    Seq(
      versions.copy(onStall = "exclude") -> label("click"),
      versions -> label("click").copy(onStall = excluding)
    )
      .foreach { case (all, one) =>
        val refused = intercept[TailraceAnalysisException](watched(all, Seq(clicks -> one)))
        assert(refused.getCondition == "TAILRACE_OPTION_CONFLICT")
        assert(refused.getMessageParameters.get("other") == "horizons")
      }
  }
}
