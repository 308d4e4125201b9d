package io.tailrace.testkit

import org.scalatest.{Suite, Tag}

/** The tag of tests that are long: random schedules, faults, damage, memory, simulations, Spark's own suites. `sbt test` leaves
  * them out; `sbt "jvm/testOnly -- -n campaign"` runs them alone, and `testOnly` of a suite runs all of its tests.
  *
  * A campaign has a short form, which CI runs. `TAILRACE_FAULTS` is the number of seeds of a long one.
  */
object Campaign extends Tag("campaign") {
  private val asked: Option[Int] = sys.env.get("TAILRACE_FAULTS").map(_.toInt)

  def isLong: Boolean = asked.isDefined

  def seeds(short: Int): Range = 0 until asked.getOrElse(short)

  /** How often a random test runs: a few times among the tests, and more often in [[Long]]. The second of each pair is the
    * test's tags.
    */
  def sizes(few: Int, more: Int): Seq[(Int, Seq[Tag])] =
    (few -> Nil) +: (if (more == few) Nil else Seq(more -> Seq(Long)))

  /** The tag of tests that only repeat, with more data, what a shorter one shows. CI leaves them out. */
  object Long extends Tag("long")
}

/** A suite whose tests are all campaigns, but for those with the tag [[Campaign.Long]]. */
trait CampaignSuite extends Suite {
  override def tags: Map[String, Set[String]] = Tags.added(this, super.tags, Campaign)
}

/** The tag of tests that take seconds, and show in whole queries, or in another shape of them, what faster tests show.
  * `sbt test` leaves them out, and so does CI; `sbt "jvm/testOnly -- -n slow"` runs them alone.
  */
object Slow extends Tag("slow")

/** A suite whose tests are all slow, but for campaigns. */
trait SlowSuite extends Suite {
  override def tags: Map[String, Set[String]] = Tags.added(this, super.tags, Slow)
}

/** The tag of tests that use the session. `dev/quick.py` runs all others, each time. */
object UsesSession extends Tag("session")

object Tags {

  /** The tags of a suite's tests, and one more for each that is no campaign yet. */
  def added(suite: Suite, tags: Map[String, Set[String]], tag: Tag): Map[String, Set[String]] =
    suite.testNames.iterator.map { name =>
      val own = tags.getOrElse(name, Set.empty)
      name -> (if (own(Campaign.name) || own(Campaign.Long.name)) own else own + tag.name)
    }.toMap
}
