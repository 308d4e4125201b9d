package io.tailrace.windows

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.fs.Path

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Campaign, CampaignSuite}

/** Complete windows that go to a table, here a directory with a file for each commit, and a process that dies. */
final class WindowTableSuite extends LandingSuite with CampaignSuite {

  private object Commits extends WindowTable {
    override val name: String = "lake.commits"
    def directory: LocalPath = WindowTableSuite.this.directory.toPath.resolve("table")

    override def commit(queryId: String, window: ClosedWindow, from: Path, isAgain: Boolean): Unit = {
      val rows = lines(Files.createDirectories(LocalPath.of(from.toUri.getPath)))
      val known = WindowReport.decode(window.report).map(_.rows)
      assert(known.contains(rows.size.toLong), s"an incomplete commit of ${window.start}")
      val file = directory.resolve(s"$queryId-${window.start}")
      if (!Files.exists(file)) {
        val out = root.getFileSystem(conf).create(new Path(s"dying://$file"))
        out.write(rows.mkString("\n").getBytes(UTF_8))
        out.close()
      } else if (!isAgain) throw WindowErrors.twoWriters(name, null)
    }

    /** Numbers of rows by window. */
    def rows: Map[String, Int] = {
      val files = Option(directory.toFile.listFiles).toSeq.flatten.filterNot(_.getName.startsWith("."))
      files.map { file =>
        val all = Files.readString(file.toPath).linesIterator.toSeq
        assert(all.distinct.size == all.size, s"twice in $file")
        LandingPaths.window("w", file.getName.stripPrefix("query-").toLong) -> all.size
      }.toMap
    }
  }

  override protected def table: Option[WindowTable] = Some(Commits)

  private def checkEnd(of: String): Unit = {
    assert(Commits.rows == expected.filter(_._1.startsWith("w=")), of)
    assert(found.filterNot(_._1.startsWith("w=")) == expected.filterNot(_._1.startsWith("w=")), of)
    expected.keys.filter(_.startsWith("w=")).foreach(window => assert(names(window) == Seq("_SUCCESS"), of))
  }

  /** A window with a mark is in the table. */
  private def checkMarked(of: String): Unit = expected.keys.filter(_.startsWith("w=")).foreach { window =>
    if (names(window).contains("_SUCCESS")) assert(Commits.rows.get(window).contains(expected(window)), of)
  }

  test("a window goes to the table in one commit when it is complete, and its files are deleted") {
    DyingFileSystem.live(Int.MaxValue)
    val folder = landed(0)
    assert(Commits.rows.isEmpty && names("w=19700101T000000Z").size == 1)
    folder.close(10, reports)
    assert(Commits.rows == Map("w=19700101T000000Z" -> 2))
    assert(names("w=19700101T000000Z") == Seq("_SUCCESS"))
    assert(names("w=19700101T000000.000010Z").size == 1, "the next window is open")
    assert(run(1) == batches.size)
    checkEnd("no death")
  }

  test("whatever step it dies before, each window is in the table once, and none with a part of its rows") {
    DyingFileSystem.live(Int.MaxValue)
    run(0)
    val steps = DyingFileSystem.steps
    assert(steps.count(_.contains("/table/")) == 6)
    def isSeam(step: String) =
      step.contains("/table/") || step.contains("_SUCCESS") || step.contains(".closed") ||
        step.startsWith("delete") && step.contains("/w=")
    steps.indices.filter(n => Campaign.isLong || isSeam(steps(n))).foreach { n =>
      emptyDirectory()
      DyingFileSystem.live(n)
      val done = run(0)
      assert(DyingFileSystem.isDead && done < batches.size)
      checkMarked(steps(n))
      // And once more, within the recovery.
      DyingFileSystem.live(n % 7)
      val again = run(done)
      checkMarked(steps(n))
      DyingFileSystem.live(Int.MaxValue)
      assert(run(again) == batches.size, steps(n))
      checkEnd(s"died before ${steps(n)}")
    }
  }

  test("a closing that fails after a commit is repeated, and the commit is not") {
    DyingFileSystem.live(Int.MaxValue)
    val folder = landed(0)
    DyingFileSystem.dieBefore(_.contains("_SUCCESS"))
    val failed = intercept[TailraceStateException](folder.close(10, reports))
    assert(failed.getMessage.contains("_SUCCESS"), failed)
    assert(Commits.rows == Map("w=19700101T000000Z" -> 2))
    DyingFileSystem.live(Int.MaxValue)
    assert(folder.closes(10))
    folder.close(10, reports)
    assert(names("w=19700101T000000Z") == Seq("_SUCCESS"))
    assert(Commits.rows == Map("w=19700101T000000Z" -> 2))
  }

  test("a window that the table has from another run is refused") {
    DyingFileSystem.live(Int.MaxValue)
    val folder = landed(0)
    Files.createDirectories(Commits.directory)
    Files.writeString(Commits.directory.resolve("query-0"), "of another\nrun")
    assert(condition(folder.close(10, reports)) == "TAILRACE_WINDOWS_TWO_WRITERS")
  }

  test("a folder stays with its table, or without one") {
    landed(0)
    def open(of: Option[WindowTable]) = WrittenFolders.open(root, settings(), conf, () => false, of)
    assert(condition(open(None)) == "TAILRACE_WINDOWS_FOLDER")
    object Another extends WindowTable {
      override val name: String = "lake.another"
      override def commit(queryId: String, window: ClosedWindow, from: Path, isAgain: Boolean): Unit = ()
    }
    assert(condition(open(Some(Another))) == "TAILRACE_WINDOWS_FOLDER")
    open(table): Unit
  }
}
