package io.tailrace.plan

import java.io.{File, FileInputStream, FileOutputStream}
import java.nio.file.Files
import java.util.zip.{ZipEntry, ZipInputStream, ZipOutputStream}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession

import io.tailrace.testkit.{Checkpoint, SparkSuite, TempDirectory}

/** Checkpoints of the queries of [[GoldenQueries]] that releases have written, one archive for each query.
  *
  * {{{
  *   checkpoint/...   of the query
  *   folder/...       the files that the query has landed, if it lands files
  *   rows.txt         a line for each row that had come out: batch, tab, row
  *   whole.txt        a line for each row that comes out if the release itself goes on
  * }}}
  */
private[tailrace] object GoldenCheckpoints {
  val root = new File("tests/golden/checkpoints")

  private val Rows = "rows.txt"
  private val Whole = "whole.txt"

  /** @param before the rows that each batch had given
    * @param whole  all rows that come out in the end
    */
  final case class Left(before: Map[Long, Seq[String]], whole: Seq[String])

  def archive(release: File, query: GoldenQuery): File =
    new File(release, query.name.replaceAll("[^a-z0-9]+", "-") + ".zip")

  /** A directory for each release, in their order. */
  def releases: Seq[File] = root.listFiles.toSeq.filter(_.isDirectory).sorted

  /** All archives, with the queries that they are of. */
  def archives: Seq[(GoldenQuery, File)] =
    for {
      release <- releases; query <- GoldenQueries.all ++ GoldenQueries.later; made = archive(release, query)
      if made.exists
    } yield query -> made

  /** Makes the archives of this release in a directory, the first argument. Others name the queries. */
  def main(arguments: Array[String]): Unit = {
    val spark = SparkSuite.session
    val release = new File(arguments(0))
    Files.createDirectories(release.toPath)
    val chosen = arguments.drop(1).toSet
    val queries = (GoldenQueries.all ++ GoldenQueries.later).filter(q => chosen.isEmpty || chosen(q.name))
    queries.foreach { query =>
      query.settings.foreach { case (key, value) => spark.conf.set(key, value.toString) }
      make(spark, query, archive(release, query))
      query.settings.foreach { case (key, _) => spark.conf.unset(key) }
    }
    spark.stop()
  }

  private def make(spark: SparkSession, query: GoldenQuery, archive: File): Unit = {
    val directory = Files.createTempDirectory("golden").toFile
    val (kept, copy) = (new File(directory, "kept"), new File(directory, "copy"))
    val before = query.leave(spark, kept)
    Checkpoint.copy(kept, copy)
    settle(copy)
    val lines = for { (batch, rows) <- before.toSeq.sortBy(_._1); row <- rows } yield s"$batch\t$row"
    Files.write(new File(kept, Rows).toPath, lines.asJava)
    Files.write(new File(kept, Whole).toPath, query.goOn(spark, copy, before).asJava)
    zip(kept, archive)
    TempDirectory.delete(directory.toPath)
  }

  private def zip(directory: File, archive: File): Unit = {
    val out = new ZipOutputStream(new FileOutputStream(archive))
    try
      DamagedCheckpoint.files(directory.toPath).foreach { file =>
        val entry = new ZipEntry(directory.toPath.relativize(file).toString)
        // The archive has the same bytes whenever it is made.
        entry.setTime(0)
        out.putNextEntry(entry)
        Files.copy(file, out)
        out.closeEntry()
      }
    finally out.close()
  }

  /** Unpacks an archive into a directory. */
  def unpack(archive: File, directory: File): Left = {
    val in = new ZipInputStream(new FileInputStream(archive))
    try
      Iterator.continually(in.getNextEntry).takeWhile(_ != null).foreach { entry =>
        val file = new File(directory, entry.getName).toPath
        Files.createDirectories(file.getParent)
        Files.copy(in, file)
      }
    finally in.close()
    settle(directory)
    def lines(name: String) = Files.readAllLines(new File(directory, name).toPath).asScala.toSeq
    val before = lines(Rows).map(_.split("\t", 2)).map(cells => cells(0).toLong -> cells(1))
    Left(before.groupMap(_._1)(_._2), lines(Whole))
  }

  /** Replaces the absolute paths of schema files, which Spark's transformWithState keeps. */
  private def settle(directory: File): Unit =
    DamagedCheckpoint.files(directory.toPath).filter(_.toString.contains("/_metadata/v2/")).foreach {
      metadata =>
        val text = Files.readString(metadata)
        Files.writeString(
          metadata,
          text.replaceAll("file:[^\"]*/checkpoint/", s"file:$directory/checkpoint/")
        )
        // The checksum of the old file.
        Files.deleteIfExists(metadata.resolveSibling(s".${metadata.getFileName}.crc"))
    }
}
