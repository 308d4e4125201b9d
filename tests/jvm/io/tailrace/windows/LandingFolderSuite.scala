package io.tailrace.windows

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.checkpoint.Checksum
import io.tailrace.common.{Policy, TailraceAnalysisException, TailraceStateException}
import io.tailrace.testkit.{Campaign, TempDirectory}
import io.tailrace.watermark.{Completeness, ProgressSettings}

/** The protocol of a folder, without Spark: files of names and lines. */
final class LandingFolderSuite extends AnyFunSuite with TempDirectory {
  private val conf = {
    val set = new Configuration
    set.set("fs.dying.impl", classOf[DyingFileSystem].getName)
    set
  }

  private def settings(width: Long = 10) = LandingSettings(
    root.toString,
    Windows(width, 0),
    "w",
    10,
    Seq(ProgressSettings("s", Completeness.Whole, 0, None, None, None, Policy.Clamp, None)),
    None
  )
  private def root = new Path(s"dying://${directory.getPath}/out")
  private def opened(width: Long = 10): LandingFolder =
    LandingFolders.open(root, settings(width), conf, () => false)

  /** Rows of each batch by window; none for those without a time. And the low watermark after it. */
  private val batches: Seq[(Seq[(Option[Long], Int)], Long)] = Seq(
    Seq(Some(0L) -> 2, Some(10L) -> 1) -> 10L,
    Nil -> 10L,
    Seq(Some(0L) -> 3, Some(10L) -> 4, Some(20L) -> 1, None -> 2) -> 25L,
    Seq(Some(20L) -> 5, Some(0L) -> 1) -> 60L
  )
  private val expected = Map(
    "w=19700101T000000Z" -> 2,
    "w=19700101T000000.000010Z" -> 5,
    "w=19700101T000000.000020Z" -> 6,
    "w=19700101T000000.000030Z" -> 0,
    "w=19700101T000000.000040Z" -> 0,
    "w=19700101T000000.000050Z" -> 0,
    "_late/w=19700101T000000Z" -> 4,
    "_untimed" -> 2
  )

  private def stage(folder: LandingFolder, batch: Int): (Path, Seq[StagedFile]) = {
    val staging = folder.newStaging(batch.toLong)
    val files = batches(batch)._1.zipWithIndex.map { case ((window, rows), i) =>
      val path = s"${window.getOrElse("none")}/$batch-$i"
      val out = staging.getFileSystem(conf).create(new Path(staging, path))
      val bytes = (1 to rows).map(r => s"$batch-$i-$r\n").mkString.getBytes(UTF_8)
      out.write(bytes)
      out.close()
      StagedFile(path, window, path.dropWhile(_ != '/').drop(1), bytes.length.toLong, rows.toLong)
    }
    staging -> files
  }

  private def reports(closed: Seq[(Long, Long)]): Seq[WindowReport] = closed.map { case (start, rows) =>
    WindowReport(start, start + 10, rows, 0, 0, Nil, "1", start + 10, 0, Nil)
  }

  /** What Spark does from a batch on. @return batches that are done */
  private def run(from: Int): Int = {
    var done = from
    try {
      val folder = opened()
      while (done < batches.size) {
        folder.begin("query", done.toLong)
        if (folder.landed(done.toLong, s"offsets of $done").isEmpty) {
          val (staging, files) = stage(folder, done)
          folder.land(done.toLong, s"offsets of $done", staging, files)
        }
        folder.close(batches(done)._2, reports)
        done += 1
      }
    } catch { case NonFatal(_) if DyingFileSystem.isDead => }
    done
  }

  private def lines(of: java.nio.file.Path): Seq[String] = {
    val files = Files.list(of)
    try
      files.iterator.asScala
        .filterNot(f => f.getFileName.toString.startsWith("_") || f.getFileName.toString.startsWith("."))
        .flatMap(f => Files.readAllLines(f).asScala)
        .toSeq
    finally files.close()
  }

  private def found: Map[String, Int] = {
    val out = directory.toPath.resolve("out")
    expected.keySet
      .map(out.resolve)
      .filter(Files.isDirectory(_))
      .map { d =>
        val all = lines(d)
        assert(all.distinct.size == all.size, s"twice in $d")
        out.relativize(d).toString -> all.size
      }
      .toMap
  }

  private def checkMarkers(): Unit = expected.keys.filter(_.startsWith("w=")).foreach { name =>
    val marker = directory.toPath.resolve("out").resolve(name).resolve("_SUCCESS")
    if (Files.exists(marker)) {
      val report = WindowReport.decode(Files.readString(marker)).getOrElse(fail(s"$name is half marked"))
      assert(report.rows == expected(name), name)
      assert(lines(marker.getParent).size == expected(name), s"$name isn't complete, or has grown")
    }
  }

  private def names(path: String): Seq[String] = {
    val folder = directory.toPath.resolve("out").resolve(path)
    if (!Files.exists(folder)) Nil
    else {
      val files = Files.list(folder)
      try files.iterator.asScala.map(_.getFileName.toString).toSeq.sorted
      finally files.close()
    }
  }

  test("rows come into their windows, late ones and those without a time aside, and nothing is left over") {
    DyingFileSystem.live(Int.MaxValue)
    assert(run(0) == batches.size)
    assert(found == expected)
    checkMarkers()
    assert(names("w=19700101T000000.000050Z") == Seq("_SUCCESS"))
    assert(names("_tailrace/batches") == Seq("3.batch"))
    assert(names("_tailrace/closed") == Seq("2.closed"))
    assert(names("_tailrace/staging").isEmpty)
    assert(opened().state == OpenWindows(Windows(10, 0), Some(60), scala.collection.immutable.TreeMap.empty))
  }

  test(
    "whatever step it dies before, the next start does the rest: nothing is lost, twice, or marked too early",
    Campaign
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

  test("dying twice, at any two steps", Campaign) {
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

  private def condition(body: => Any): String =
    try {
      body
      fail("it isn't refused")
    } catch {
      case e: TailraceStateException => e.getCondition
      case e: TailraceAnalysisException => e.getCondition
    }

  private def landed(batch: Int): LandingFolder = {
    DyingFileSystem.live(Int.MaxValue)
    val folder = opened()
    folder.begin("query", 0)
    val (staging, files) = stage(folder, batch)
    folder.land(batch.toLong, s"offsets of $batch", staging, files)
    folder
  }

  test("a folder is of one query and has one kind of windows") {
    landed(0)
    assert(condition(opened(20)) == "TAILRACE_WINDOWS_FOLDER")
    assert(condition(opened().begin("another", 1)) == "TAILRACE_WINDOWS_FOLDER")
    LandingFolders.open(root, settings(), conf, () => true)
    assert(condition(opened()) == "TAILRACE_WINDOWS_FOLDER", "while its query runs")
  }

  test("a batch that is made of other data, or is before the newest, is refused") {
    val folder = landed(2)
    assert(folder.landed(2, "offsets of 2").map(_.rows).contains(10))
    assert(folder.landed(3, "any").isEmpty)
    assert(condition(folder.landed(2, "others")) == "TAILRACE_WINDOWS_ROLLED_BACK")
    assert(condition(folder.landed(1, "offsets of 1")) == "TAILRACE_WINDOWS_ROLLED_BACK")
  }

  test(
    "a query that has landed in another folder since is refused by what it has done, and not by a lost file"
  ) {
    landed(0)
    val folder = opened()
    folder.begin("query", 20)
    val error = intercept[TailraceStateException](folder.landed(20, "offsets of 20"))
    assert(error.getCondition == "TAILRACE_WINDOWS_LEFT")
    val told = error.getMessageParameters
    assert(Seq("batch", "newest", "path").map(told.get(_)) == Seq("20", "0", root.toString))
  }

  test("a query whose batches have landed elsewhere begins no other folder, nor the same one emptied") {
    DyingFileSystem.live(Int.MaxValue)
    assert(condition(opened().begin("query", 1)) == "TAILRACE_WINDOWS_FOLDER")
    assert(names("") == Nil, "nothing is written")
    landed(0)
    assert(opened().landed(1, "offsets of 1").isEmpty)
    emptyDirectory()
    assert(condition(opened().begin("query", 1)) == "TAILRACE_WINDOWS_FOLDER")
    // A first batch that wasn't committed runs again, wherever it landed.
    opened().begin("query", 0)
  }

  test("a folder that was moved with its own files goes on") {
    landed(0).close(10, reports)
    val out = directory.toPath.resolve("out")
    val elsewhere = directory.toPath.resolve("elsewhere")
    Files.move(out, elsewhere)
    assert(condition(opened().begin("query", 1)) == "TAILRACE_WINDOWS_FOLDER")
    val path = new Path(s"dying://$elsewhere")
    val moved = LandingFolders.open(path, settings().copy(path = path.toString), conf, () => false)
    moved.begin("query", 1)
    assert(moved.landed(1, "offsets of 1").isEmpty)
  }

  test("of two writers one is refused: in this process, and in another one") {
    val first = landed(0)
    val second = opened()
    assert(condition(first.close(10, reports)) == "TAILRACE_WINDOWS_TWO_WRITERS")
    Files.writeString(directory.toPath.resolve("out/_tailrace/batches/2.batch"), "another's")
    val (staging, files) = stage(second, 2)
    assert(condition(second.land(2, "", staging, files)) == "TAILRACE_WINDOWS_TWO_WRITERS")
    assert(second.close(60, reports).isEmpty, "nothing closes while it isn't known what has landed")
  }

  test("a staged file that is gone stops it by name; files that were taken away when all had landed don't") {
    landed(0)
    names("w=19700101T000000Z").foreach(n =>
      Files.delete(directory.toPath.resolve("out/w=19700101T000000Z").resolve(n))
    )
    opened()
    DyingFileSystem.live(Int.MaxValue)
    val folder = opened()
    folder.begin("query", 2)
    val (staging, files) = stage(folder, 2)
    DyingFileSystem.dieBefore(step => step.startsWith("rename") && step.contains("/w="))
    intercept[Exception](folder.land(2, "offsets of 2", staging, files))
    assert(names("_tailrace/batches").contains("2.batch"))
    DyingFileSystem.live(Int.MaxValue)
    files.foreach(f => staging.getFileSystem(conf).delete(new Path(staging, f.path), false))
    assert(condition(opened()) == "TAILRACE_WINDOWS_FILE_MISSING")
  }

  private def file(name: String) = directory.toPath.resolve("out").resolve(name)

  test("a folder whose own files are gone isn't begun again: each stops it by name") {
    def gone(name: String)(next: => Any): Unit = {
      val bytes = Files.readAllBytes(file(name))
      Files.delete(file(name))
      val e = intercept[TailraceStateException](next)
      assert(e.getCondition == "TAILRACE_STATE_FILE_MISSING", name)
      assert(e.getMessageParameters.get("file").contains(new Path(name).getParent.toString), name)
      Files.write(file(name), bytes)
    }
    landed(0).close(10, reports)
    gone("_tailrace/folder")(opened().begin("query", 1))
    gone("_tailrace/batches/0.batch")(opened().landed(1, "offsets of 1"))
    // The closing after the newest batch is known by its marks, earlier ones by that batch.
    gone("_tailrace/closed/0.closed")(opened())
    val folder = opened()
    folder.land(1, "offsets of 1", folder.newStaging(1), Nil)
    gone("_tailrace/closed/0.closed")(opened())
    gone("_tailrace/batches/1.batch")(opened().landed(2, "offsets of 2"))
    assert(opened().landed(2, "offsets of 2").isEmpty)
  }

  test("a folder of an earlier release, which has no file of a batch without rows, goes on") {
    landed(0)
    val batch = Files.readString(file("_tailrace/batches/0.batch")).linesIterator.toSeq(1)
    Seq(
      "batches/0.batch" -> batch,
      "folder" -> Files.readString(file("_tailrace/folder")).linesIterator.toSeq(1)
    )
      .foreach { case (name, json) =>
        val lines = s"tailrace-windows 1\n${json.replaceAll(",\"(closings|since)\":\\d+", "")}\n"
        Files.writeString(file(s"_tailrace/$name"), s"$lines${Checksum.hex(lines)}\n")
      }
    val folder = opened()
    folder.begin("query", 5)
    assert(folder.landed(5, "offsets of 5").isEmpty)
  }

  test("staged files that are gone with their directory are missed when the batch runs again") {
    val folder = opened()
    DyingFileSystem.live(Int.MaxValue)
    folder.begin("query", 0)
    val (staging, files) = stage(folder, 0)
    DyingFileSystem.dieBefore(step => step.startsWith("rename") && step.contains("/w="))
    intercept[Exception](folder.land(0, "offsets of 0", staging, files))
    DyingFileSystem.live(Int.MaxValue)
    staging.getFileSystem(conf).delete(staging, true)
    assert(condition(opened().landed(0, "offsets of 0")) == "TAILRACE_WINDOWS_FILE_MISSING")
  }

  test("a staged file of another length isn't landed") {
    val folder = opened()
    DyingFileSystem.live(Int.MaxValue)
    folder.begin("query", 0)
    val (staging, files) = stage(folder, 0)
    val short = new java.io.File(new Path(staging, files.head.path).toUri.getPath).toPath
    Files.write(short, Files.readAllBytes(short).drop(1))
    Files.deleteIfExists(short.resolveSibling(s".${short.getFileName}.crc"))
    assert(condition(folder.land(0, "offsets of 0", staging, files)) == "TAILRACE_STATE_FILE_CORRUPT")
    assert(condition(opened()) == "TAILRACE_STATE_FILE_CORRUPT", "the next start too")
  }
}
