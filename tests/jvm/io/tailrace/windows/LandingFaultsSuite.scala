package io.tailrace.windows

import io.tailrace.testkit.{Campaign, CampaignSuite}

/** A process that dies before any of its steps. */
final class LandingFaultsSuite extends LandingSuite with CampaignSuite {

  test(
    "whatever step it dies before, the next start does the rest: nothing is lost, twice, or marked too early"
  ) {
    DyingFileSystem.live(Int.MaxValue)
    run(0)
    val steps = DyingFileSystem.steps
    def count(part: String) = steps.count(_.contains(part))
    // Staging, the batch's file, each file to its place, the closed windows' file, markers.
    assert(count("create") > 10 && count(".batch") > 6 && count("rename") > 20)
    assert(count(".closed") > 4 && count("_SUCCESS") > 6)
    // Making files in staging and directories is alike wherever it ends.
    def isDull(step: String) =
      step.startsWith("mkdirs") || step.contains("/staging/") && !step.startsWith("rename")
    steps.indices.filter(n => Campaign.isLong || n % 5 == 0 || !isDull(steps(n))).foreach { n =>
      emptyDirectory()
      DyingFileSystem.live(n)
      val done = run(0)
      assert(DyingFileSystem.isDead && done < batches.size)
      checkMarkers()
      DyingFileSystem.live(Int.MaxValue)
      assert(run(done) == batches.size)
      assert(found == expected, s"died before ${steps(n)}")
      checkMarkers()
      assert(expected.keys.filter(_.startsWith("w=")).forall(names(_).contains("_SUCCESS")), steps(n))
      assert(names("_tailrace/staging").isEmpty && names("_tailrace/batches") == Seq("3.batch"), steps(n))
      assert(names("w=19700101T000000.000050Z") == Seq("_SUCCESS"), steps(n))
    }
  }

  test("a writer may die twice, before any two steps, and each row lands once") {
    DyingFileSystem.live(Int.MaxValue)
    run(0)
    val steps = DyingFileSystem.steps.size
    val random = new scala.util.Random(7)
    Campaign.seeds(20).foreach { _ =>
      emptyDirectory()
      DyingFileSystem.live(random.nextInt(steps))
      val first = run(0)
      checkMarkers()
      DyingFileSystem.live(random.nextInt(20))
      val second = run(first)
      checkMarkers()
      DyingFileSystem.live(Int.MaxValue)
      assert(run(second) == batches.size)
      assert(found == expected)
      checkMarkers()
    }
  }
}
