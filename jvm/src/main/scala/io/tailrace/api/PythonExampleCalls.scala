package io.tailrace.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Column, DataFrame, Dataset}

import io.tailrace.asof.AsOfOptions
import io.tailrace.examples.{ExampleFeatures, ExampleLabel, ExampleOptions, ExampleSample}

/** The calls of Python that make examples and their features. */
private[api] trait PythonExampleCalls {

  /** @param labels   their streams; the other lists have as many elements
    * @param since    null: all impressions have the label
    * @param sampled  predicates, each with the digits of its rate behind it
    */
  def examples(
      impressions: Dataset[_],
      labels: java.util.List[Dataset[_]],
      onLeft: java.util.List[java.util.List[String]],
      onRight: java.util.List[java.util.List[String]],
      since: java.util.List[Column],
      ofLabels: java.util.List[java.util.Map[String, String]],
      features: java.util.List[Dataset[_]],
      featuresLeft: java.util.List[java.util.List[String]],
      featuresRight: java.util.List[java.util.List[String]],
      ofFeatures: java.util.List[java.util.Map[String, String]],
      sampled: java.util.List[String],
      horizons: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.examples", options)
    val found = labels.asScala.indices.map { i =>
      val label = new Chosen("tailrace.examples", ofLabels.get(i))
      labels.get(i) -> ExampleLabel(
        name = label("name"),
        time = label("time"),
        on = pairs(onLeft.get(i), onRight.get(i)),
        after = label("after"),
        before = label("before"),
        `match` = label("match"),
        maxMatches = label.int("max_matches"),
        where = label.get("where"),
        since = Option(since.get(i)),
        attribution = label.get("attribution"),
        onStall = label("on_stall"),
        stallAfter = label.get("stall_after")
      )
    }
    val values = features.asScala.toSeq.indices.map { i =>
      val one = new Chosen("tailrace.examples", ofFeatures.get(i))
      val on = pairs(featuresLeft.get(i), featuresRight.get(i))
      features.get(i) -> ExampleFeatures(one("name"), one("time"), on, one.get("max_age"), one("delay"))
    }
    val sample = chosen.long("seed").map { seed =>
      val rates = sampled.asScala.toSeq.grouped(2).map(pair => pair.head -> pair.last.toDouble).toSeq
      ExampleSample(rates, seed, chosen("weight"))
    }
    Tailrace.examples(
      impressions,
      ExampleOptions(
        chosen("time"),
        chosen("on_late"),
        chosen.get("release_every"),
        sample,
        chosen("name"),
        horizons.asScala.toSeq,
        chosen.get("emit").getOrElse("all"),
        chosen.get("close_after"),
        chosen.get("amend_for")
      ),
      values
    )(found: _*)
  }

  protected def pairs(left: java.util.List[String], right: java.util.List[String]): Seq[(String, String)] =
    left.asScala.toSeq.zip(right.asScala)

  def asOf(
      left: Dataset[_],
      right: Dataset[_],
      onLeft: java.util.List[String],
      onRight: java.util.List[String],
      options: java.util.Map[String, String]
  ): DataFrame = {
    val chosen = new Chosen("tailrace.as_of", options)
    Tailrace.asOf(
      left,
      right,
      pairs(onLeft, onRight),
      AsOfOptions(
        leftTime = chosen("left_time"),
        rightTime = chosen("right_time"),
        into = chosen("into"),
        maxAge = chosen.get("max_age"),
        delay = chosen("delay"),
        closeAfter = chosen.get("close_after"),
        onLate = chosen("on_late")
      )
    )
  }
}
