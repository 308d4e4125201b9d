package io.tailrace.state

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{FileFault, FileFaults, FileStep, TempDirectory}

/** The files of one partition in a checkpoint on the local disk. */
abstract class CheckpointFilesFixture extends AnyFunSuite with TempDirectory {
  protected val content = Array.tabulate(200000)(i => (i * 7).toByte)

  protected def checkpoint = new File(directory, "checkpoint")
  protected def newFiles(conf: Configuration = new Configuration) =
    new CheckpointFiles(new Path(checkpoint.toURI), conf)
  protected def stored(name: String) = new File(checkpoint, name)
  // None if the directory was not made.
  protected def names: Set[String] =
    Option(checkpoint.list).toSet.flatten.filterNot((name: String) => name.startsWith("."))

  protected def local(name: String, bytes: Array[Byte] = content): File = {
    val file = new File(directory, name)
    Files.write(file.toPath, bytes)
    file
  }

  protected def upload(files: CheckpointFiles, name: String): Run = {
    val run = files.upload(local("upload"), name)
    assert(run.name == name && run.sections.isEmpty)
    run.copy(sections = Seq(Section("right-key-sorted", 0, 1, 0, 0, 1)))
  }

  /** Writes a version that adds one run to `earlier` ones. @return the new run */
  protected def commit(
      files: CheckpointFiles,
      version: Long,
      earlier: Seq[Run],
      id: Option[String] = None
  ): Run = {
    val run = upload(files, CheckpointFiles.runName(version))
    files.writeManifest(Manifest(version, 0, earlier :+ run), id)
    run
  }

  protected def assertFails(condition: String, file: File)(body: => Any): Unit =
    intercept[Exception](body) match {
      case e: SparkThrowable =>
        assert(e.getCondition == condition)
        assert(new Path(e.getMessageParameters.get("file")).toUri.getPath == file.getPath)
      case e => throw e
    }

  protected def unavailable(file: File)(body: => Any): Unit =
    assertFails("TAILRACE_STATE_FILE_UNAVAILABLE", file)(body)
  protected def corrupt(file: File)(body: => Any): Unit =
    assertFails("TAILRACE_STATE_FILE_CORRUPT", file)(body)
  protected def missing(file: File)(body: => Any): Unit =
    assertFails("TAILRACE_STATE_FILE_MISSING", file)(body)

  protected def failing[T](step: FileStep, file: String)(body: => T): T = {
    val (result, fired) = FileFaults.during(FileFault(step, file.r))(body)
    assert(fired.size == 1)
    result
  }
}
