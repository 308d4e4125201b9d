package org.apache.spark.sql.tailrace

import org.scalatest.{Args, DynaTags, Filter, Status, SucceededStatus}

/** A suite of Spark's that takes minutes. By default it runs a few of its tests; with TAILRACE_LONG in the
  * environment it runs all. A test that is asked for by its name always runs.
  */
trait ShortByDefault extends NotApplicable {

  /** A test with one of these in its name is in every run. Empty: the suite is for long runs only. */
  protected def everyRun: Seq[String]

  private def inEveryRun(name: String): Boolean =
    (everyRun ++ ShortByDefault.Always).exists(part => name.contains(part))

  override def run(testName: Option[String], args: Args): Status =
    if (ShortByDefault.long || testName.isDefined) super.run(testName, args)
    else if (everyRun.isEmpty) SucceededStatus
    else {
      val tag = "in every run"
      val tags = testNames.filter(inEveryRun).map(_ -> Set(tag)).toMap
      val only = Filter(
        Some(Set(tag)),
        args.filter.tagsToExclude,
        dynaTags = DynaTags(Map.empty, Map(suiteId -> tags))
      )
      super.run(None, args.copy(filter = only))
    }

  test(ShortByDefault.Check) {
    assert(everyRun.filterNot(part => testNames.exists(_.contains(part))) == Nil)
  }
}

object ShortByDefault {
  val Check = "every test on the list of those for every run is one of Spark's"

  /** Our tests of the suite itself. */
  val Always: Seq[String] = Seq(Check, NotApplicable.Check, OnTailrace.Check)

  private val long = sys.env.contains("TAILRACE_LONG")
}
