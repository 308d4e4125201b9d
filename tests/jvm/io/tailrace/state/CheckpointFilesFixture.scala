package io.tailrace.state

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.checkpoint.CheckedText
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

  /** The only manifest of a version. */
  protected def manifest(version: Long): File = {
    val found = names.filter(StateFileNames.manifestVersion(_).contains(version))
    assert(found.size == 1)
    stored(found.head)
  }

  /** The names of the only manifests of versions. */
  protected def manifests(versions: Long*): Set[String] = versions.map(manifest(_).getName).toSet

  protected def local(name: String, bytes: Array[Byte] = content): File = {
    val file = new File(directory, name)
    Files.write(file.toPath, bytes)
    file
  }

  protected def download(files: CheckpointFiles, run: Run): File = {
    val file = Files.createTempFile(directory.toPath, "download", "").toFile
    RunCopy.await(files.copyOf(run, file, 1, LocalBytes.None).hurry())
    file
  }

  protected def upload(files: CheckpointFiles, name: String): Run = {
    val run = files.upload(WrittenFile.of(local("upload")), name)
    assert(run.name == name && run.sections.isEmpty)
    run.copy(sections = Seq(Section("right-key-sorted", 0, 1, 0, 0, 1)))
  }

  /** Writes a version. @return its file */
  protected def write(files: CheckpointFiles, manifest: Manifest, id: Option[String] = None): File = {
    val name = files.newManifest(manifest.version, id)
    assert(files.commit(name, manifest, Map.empty) == manifest)
    stored(name)
  }

  /** Writes a version as the release before format 3 did. */
  protected def commitBefore(version: Long, runs: Run*): File = {
    val text = new String(Manifest.encode(Manifest(version, 0, runs), place, "none"), UTF_8).split('\n')
    val before = new CheckedText("tailrace-state", "a manifest", 2, 2)
    checkpoint.mkdirs()
    Files.write(stored(s"$version.manifest").toPath, before.encode(text(1), place)).toFile
  }

  private def place = s"${checkpoint.getParentFile.getName}/${checkpoint.getName}"

  /** Writes a version that adds one run to `earlier` ones. @return the new run */
  protected def commit(
      files: CheckpointFiles,
      version: Long,
      earlier: Seq[Run],
      id: Option[String] = None
  ): Run = {
    val name = files.newManifest(version, id)
    val run = upload(files, StateFileNames.run(version))
    files.commit(name, Manifest(version, 0, earlier :+ run), Map.empty)
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
