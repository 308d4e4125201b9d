package io.tailrace.state

import java.io.File
import java.nio.file.Files

import org.apache.spark.SparkThrowable
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{Damage, RunFixture, TestRow}

final class LocalRunSuite extends AnyFunSuite with RunFixture {

  private def copyOf(live: LiveSection, name: String): LocalRun = {
    val file = new File(directory, name)
    Files.copy(live.local.file.toPath, file.toPath)
    new LocalRun(name, file)
  }

  private def section: LiveSection =
    newRun(10, StoreKind.LeftTimeSorted -> bufferOf(TestRow.of("k", 1, 1, "v"))).head

  private def assertCorrupt(live: LiveSection): Unit =
    intercept[Exception](live.cursor()) match {
      case e: SparkThrowable =>
        assert(e.getCondition == "TAILRACE_STATE_LOCAL_FILE")
        assert(e.getMessageParameters.get("file") == live.local.file.getPath)
      case e => throw e
    }

  test("a local run's file is deleted when its last user releases it, not before") {
    val live = section
    val run = copyOf(live, "copy.run")
    run.acquire()
    run.acquire()
    TestRow.all(new LiveSection(run, live.section))
    run.release()
    assert(run.file.exists)
    assert(TestRow.all(new LiveSection(run, live.section)).size == 1)
    run.release()
    assert(!run.file.exists)
  }

  test("a local run that was deleted can't be read or acquired") {
    val live = section
    val run = copyOf(live, "copy.run")
    run.acquire()
    run.release()
    assertThrows[IllegalArgumentException](run.acquire())
    assertThrows[IllegalArgumentException](new LiveSection(run, live.section).cursor())
  }

  test("a local run can't be read before it is acquired") {
    val live = section
    assertThrows[IllegalArgumentException](new LiveSection(copyOf(live, "copy.run"), live.section).cursor())
  }

  test("a file that isn't a run is refused by name, each time it is tried") {
    val live = section
    val run = copyOf(live, "copy.run")
    Damage.truncate(run.file, run.file.length / 2)
    run.acquire()
    (1 to 3).foreach(_ => assertCorrupt(new LiveSection(run, live.section)))
    run.release()
    assert(!run.file.exists)
  }

  test("a file that has vanished is refused by name") {
    val live = section
    val run = copyOf(live, "copy.run")
    assert(run.file.delete())
    run.acquire()
    assertCorrupt(new LiveSection(run, live.section))
    run.release()
  }
}
