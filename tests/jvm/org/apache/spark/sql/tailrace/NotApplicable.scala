package org.apache.spark.sql.tailrace

import org.apache.spark.SparkFunSuite

import io.tailrace.testkit.CampaignSuite

/** A campaign: a suite of Spark's, with a list of the tests that don't apply and their reasons. Spark ignores
  * these tests. One more test fails if the list names a test that the suite doesn't have.
  */
trait NotApplicable extends SparkFunSuite with CampaignSuite {

  /** Reason -> names of tests. A `def`, because the parent's constructor calls it. */
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
