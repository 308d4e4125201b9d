package org.apache.spark.sql.tailrace

import org.apache.spark.SparkFunSuite

import io.tailrace.testkit.CampaignSuite

/** A suite of Spark's: a campaign. Its tests that don't apply are listed, each with its reason. Spark's own hook
  * makes them ignored tests; one more test keeps the list from naming what the parent doesn't have.
  */
trait NotApplicable extends SparkFunSuite with CampaignSuite {

  /** Reason -> names of tests. A `def`: it is asked while the parent's constructor runs. */
  protected def notApplicable: Map[String, Seq[String]] = Map.empty

  override protected def excluded: Seq[String] = super.excluded ++ notApplicable.values.flatten

  test(NotApplicable.Check) {
    assert(notApplicable.keys.forall(_.trim.nonEmpty))
    assert(notApplicable.values.flatten.toSeq.filterNot(name => testNames(s"$name (excluded)")) == Nil)
  }
}

object NotApplicable {
  val Check = "every test on the list of those that don't apply is one of Spark's"
}
