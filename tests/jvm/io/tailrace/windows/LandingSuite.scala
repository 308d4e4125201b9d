package io.tailrace.windows

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{Policy, TailraceAnalysisException, TailraceStateException}
import io.tailrace.testkit.TempDirectory
import io.tailrace.watermark.{Completeness, ProgressSettings}

/** The protocol of a folder, without Spark: files of names and lines. */
abstract class LandingSuite extends AnyFunSuite with TempDirectory {
  protected val conf = {
    val set = new Configuration
    set.set("fs.dying.impl", classOf[DyingFileSystem].getName)
    set
  }

  protected def settings(width: Long = 10) = LandingSettings(
    root.toString,
    Windows(width, 0),
    "w",
    10,
    None,
    Seq(ProgressSettings("s", Completeness.Whole, 0, None, None, None, Policy.Clamp, None)),
    None
  )
  protected def root = new Path(s"dying://${directory.getPath}/out")
  protected def opened(width: Long = 10): LandingFolder =
    WrittenFolders.open(root, settings(width), conf, () => false, table)

  /** The table that complete windows go to. */
  protected def table: Option[WindowTable] = None

  /** Rows of each batch by window; none for those without a time. And the low watermark after it. */
  protected val batches: Seq[(Seq[(Option[Long], Int)], Long)] = Seq(
    Seq(Some(0L) -> 2, Some(10L) -> 1) -> 10L,
    Nil -> 10L,
    Seq(Some(0L) -> 3, Some(10L) -> 4, Some(20L) -> 1, None -> 2) -> 25L,
    Seq(Some(20L) -> 5, Some(0L) -> 1) -> 60L
  )
  protected val expected = Map(
    "w=19700101T000000Z" -> 2,
    "w=19700101T000000.000010Z" -> 5,
    "w=19700101T000000.000020Z" -> 6,
    "w=19700101T000000.000030Z" -> 0,
    "w=19700101T000000.000040Z" -> 0,
    "w=19700101T000000.000050Z" -> 0,
    "_late/w=19700101T000000Z" -> 4,
    "_untimed" -> 2
  )

  protected def stage(folder: LandingFolder, batch: Int): (Path, Seq[StagedFile]) = {
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

  protected def reports(closed: Seq[(Long, Long)]): Seq[WindowReport] = closed.map { case (start, rows) =>
    WindowReport(start, start + 10, rows, 0, 0, Nil, "1", start + 10, 0, Nil)
  }

  /** Runs batches as Spark does, from one on. @return how many are done */
  protected def run(from: Int): Int = {
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

  protected def lines(of: java.nio.file.Path): Seq[String] = {
    val files = Files.list(of)
    try
      files.iterator.asScala
        .filterNot(f => f.getFileName.toString.startsWith("_") || f.getFileName.toString.startsWith("."))
        .flatMap(f => Files.readAllLines(f).asScala)
        .toSeq
    finally files.close()
  }

  protected def found: Map[String, Int] = {
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

  protected def checkMarkers(): Unit = expected.keys.filter(_.startsWith("w=")).foreach { name =>
    val marker = directory.toPath.resolve("out").resolve(name).resolve("_SUCCESS")
    if (Files.exists(marker)) {
      val report = WindowReport.decode(Files.readString(marker)).getOrElse(fail(s"$name is half marked"))
      assert(report.rows == expected(name), name)
      assert(lines(marker.getParent).size == expected(name), s"$name isn't complete, or has grown")
    }
  }

  protected def names(path: String): Seq[String] = {
    val folder = directory.toPath.resolve("out").resolve(path)
    if (!Files.exists(folder)) Nil
    else {
      val files = Files.list(folder)
      try files.iterator.asScala.map(_.getFileName.toString).toSeq.sorted
      finally files.close()
    }
  }

  protected def condition(body: => Any): String =
    try {
      body
      fail("it isn't refused")
    } catch {
      case e: TailraceStateException => e.getCondition
      case e: TailraceAnalysisException => e.getCondition
    }

  protected def landed(batch: Int): LandingFolder = {
    DyingFileSystem.live(Int.MaxValue)
    val folder = opened()
    folder.begin("query", 0)
    val (staging, files) = stage(folder, batch)
    folder.land(batch.toLong, s"offsets of $batch", staging, files)
    folder
  }
}
