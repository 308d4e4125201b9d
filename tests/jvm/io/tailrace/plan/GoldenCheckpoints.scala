package io.tailrace.plan

import java.io.{File, FileInputStream, FileOutputStream}
import java.nio.file.Files
import java.util.zip.{ZipEntry, ZipInputStream, ZipOutputStream}

import org.apache.spark.sql.classic.SparkSession

import io.tailrace.testkit.{SparkSuite, TempDirectory}

/** A query of each operator that keeps something, as the process of a release leaves it that dies within a micro-batch, with
  * rows in the state and on their way: one archive a query.
  *
  * {{{
  *   checkpoint/...   of the query
  *   folder/...       what it has landed, if it lands
  *   rows.txt         a line for each row that came out: batch, tab, row
  * }}}
  *
  * Later releases go on from it. A query, its batches and its end are in [[DamagedQueries]]: they can't change any more.
  */
private[plan] object GoldenCheckpoints {
  val root = new File("tests/golden/checkpoints")

  private val Rows = "rows.txt"

  def archive(release: File, query: DamagedQuery): File =
    new File(release, query.name.replaceAll("[^a-z0-9]+", "-") + ".zip")

  /** Makes those of this release: `<directory>/<query>.zip`. */
  def main(arguments: Array[String]): Unit = {
    val spark = SparkSuite.session
    val release = new File(arguments(0))
    Files.createDirectories(release.toPath)
    DamagedQueries.golden.foreach { query =>
      query.settings.foreach { case (key, value) => spark.conf.set(key, value.toString) }
      val directory = Files.createTempDirectory("golden").toFile
      make(spark, query, directory, archive(release, query))
      query.settings.foreach { case (key, _) => spark.conf.unset(key) }
    }
    spark.stop()
  }

  private def make(spark: SparkSession, query: DamagedQuery, directory: File, archive: File): Unit = {
    val kept = new File(directory, "died")
    val rows = new DamagedCheckpoint(spark, query, new File(directory, "stopped")).write(kept)
    val before = rows.toSeq.filter(_._1 <= query.diesIn).sortBy(_._1)
    val lines = for { (batch, all) <- before; row <- all } yield s"$batch\t$row\n"
    Files.writeString(new File(kept, Rows).toPath, lines.mkString)
    zip(kept, archive)
    TempDirectory.delete(directory.toPath)
  }

  private def zip(directory: File, archive: File): Unit = {
    val out = new ZipOutputStream(new FileOutputStream(archive))
    try
      DamagedCheckpoint.files(directory.toPath).foreach { file =>
        val entry = new ZipEntry(directory.toPath.relativize(file).toString)
        // The same archive whenever it is made.
        entry.setTime(0)
        out.putNextEntry(entry)
        Files.copy(file, out)
        out.closeEntry()
      }
    finally out.close()
  }

  /** Unpacks an archive. @return what each batch had given */
  def unpack(archive: File, work: File): Map[Long, Seq[String]] = {
    val in = new ZipInputStream(new FileInputStream(archive))
    try
      Iterator.continually(in.getNextEntry).takeWhile(_ != null).foreach { entry =>
        val file = new File(work, entry.getName).toPath
        Files.createDirectories(file.getParent)
        Files.copy(in, file)
      }
    finally in.close()
    val lines = Files.readString(new File(work, Rows).toPath).linesIterator
    lines.map(_.split("\t", 2)).map(cells => cells(0).toLong -> cells(1)).toSeq.groupMap(_._1)(_._2)
  }
}
