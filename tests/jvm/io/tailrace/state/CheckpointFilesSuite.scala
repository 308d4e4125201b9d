package io.tailrace.state

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{Damage, FileFault, FileFaults, FileStep, TempDirectory, WatchedFiles}

final class CheckpointFilesSuite extends AnyFunSuite with TempDirectory {
  private val content = Array.tabulate(200000)(i => (i * 7).toByte)

  private def checkpoint = new File(directory, "checkpoint")
  private def newFiles(conf: Configuration = new Configuration) =
    new CheckpointFiles(new Path(checkpoint.toURI), conf)
  private def stored(name: String) = new File(checkpoint, name)
  // None if the directory was not made.
  private def names: Set[String] =
    Option(checkpoint.list).toSet.flatten.filterNot((name: String) => name.startsWith("."))

  private def local(name: String, bytes: Array[Byte] = content): File = {
    val file = new File(directory, name)
    Files.write(file.toPath, bytes)
    file
  }

  private def upload(files: CheckpointFiles, name: String): Run = {
    val run = files.upload(local("upload"), name)
    assert(run.name == name && run.sections.isEmpty)
    run.copy(sections = Seq(Section("right-key-sorted", 0, 1, 0, 0, 1)))
  }

  /** Writes a version that adds one run to `earlier` ones. @return the new run */
  private def commit(
      files: CheckpointFiles,
      version: Long,
      earlier: Seq[Run],
      id: Option[String] = None
  ): Run = {
    val run = upload(files, CheckpointFiles.runName(version))
    files.writeManifest(Manifest(version, 0, earlier :+ run), id)
    run
  }

  private def assertFails(condition: String, file: File)(body: => Any): Unit =
    intercept[Exception](body) match {
      case e: SparkThrowable =>
        assert(e.getCondition == condition)
        assert(new Path(e.getMessageParameters.get("file")).toUri.getPath == file.getPath)
      case e => throw e
    }

  private def unavailable(file: File)(body: => Any): Unit =
    assertFails("TAILRACE_STATE_FILE_UNAVAILABLE", file)(body)
  private def corrupt(file: File)(body: => Any): Unit = assertFails("TAILRACE_STATE_FILE_CORRUPT", file)(body)
  private def missing(file: File)(body: => Any): Unit = assertFails("TAILRACE_STATE_FILE_MISSING", file)(body)

  test("a run that was uploaded is downloaded with the same bytes") {
    val run = upload(newFiles(), "1-a.run")
    assert(run.length == content.length)
    val target = new File(directory, "download")
    newFiles().download(run, target, 1)
    assert(Files.readAllBytes(target.toPath).sameElements(content))
  }

  test("a manifest is read back by version, and by id where it has one") {
    val manifest = Manifest(3, 5, Seq(Run("3-a.run", 1, 2, Nil)))
    newFiles().writeManifest(manifest, None)
    newFiles().writeManifest(manifest.copy(expiredThrough = 6), Some("x"))
    assert(names == Set("3.manifest", "3_x.manifest"))
    assert(newFiles().readManifest(3, None) == manifest)
    assert(newFiles().readManifest(3, Some("x")).expiredThrough == 6)
  }

  test("versions are those with a manifest, and a query for them creates no directory") {
    assert(newFiles().versions.isEmpty)
    missing(stored("3.manifest"))(newFiles().readManifest(3, None))
    assert(!checkpoint.exists)
    commit(newFiles(), 3, Nil)
    commit(newFiles(), 4, Nil, Some("x"))
    upload(newFiles(), CheckpointFiles.runName(5))
    assert(newFiles().versions == Set(3, 4))
  }

  test("a second attempt's manifest of a version replaces the first") {
    newFiles().writeManifest(Manifest(3, 5, Nil), None)
    newFiles().writeManifest(Manifest(3, 6, Nil), None)
    assert(newFiles().readManifest(3, None).expiredThrough == 6)
  }

  test("a missing manifest is named") {
    missing(stored("3.manifest"))(newFiles().readManifest(3, None))
    newFiles().writeManifest(Manifest(3, 5, Nil), None)
    missing(stored("3_x.manifest"))(newFiles().readManifest(3, Some("x")))
  }

  test("a missing run is named") {
    val run = upload(newFiles(), "1-a.run")
    assert(stored("1-a.run").delete())
    missing(stored("1-a.run"))(newFiles().download(run, new File(directory, "download"), 1))
  }

  // Spark's usual manager turns Hadoop's checksums of local files off, so that ours are all there is; the
  // other one has them, and the damage shows before ours are asked.
  Seq("our checksum alone", "Hadoop's checksum").foreach { by =>
    val hadoops = by.startsWith("Hadoop")
    def managed() = {
      val conf = new Configuration
      if (hadoops) conf.set(WatchedFiles.Key, classOf[FileSystemBasedCheckpointFileManager].getName)
      newFiles(conf)
    }

    test(s"a damaged manifest is named, found by $by") {
      managed().writeManifest(Manifest(3, 5, Nil), None)
      Damage.flipMiddle(stored("3.manifest"))
      corrupt(stored("3.manifest"))(managed().readManifest(3, None))
    }

    Seq[(String, File => Unit)](
      "flipped bit" -> Damage.flipMiddle,
      "lost end" -> (f => Damage.truncate(f, f.length - 1)),
      "lost content" -> (f => Damage.truncate(f, 0))
    ).foreach { case (what, damage) =>
      test(s"a run with a $what is named, found by $by") {
        val run = upload(managed(), "1-a.run")
        damage(stored("1-a.run"))
        corrupt(stored("1-a.run"))(managed().download(run, new File(directory, "download"), 1))
      }
    }
  }

  test("a manifest under the name of another version is refused") {
    newFiles().writeManifest(Manifest(3, 5, Nil), None)
    Files.copy(stored("3.manifest").toPath, stored("4.manifest").toPath)
    corrupt(stored("4.manifest"))(newFiles().readManifest(4, None))
  }

  private def failing[T](step: FileStep, file: String)(body: => T): T = {
    val (result, fired) = FileFaults.during(FileFault(step, file.r))(body)
    assert(fired.size == 1)
    result
  }

  test("a write that fails leaves no file, and the error names it") {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    Seq(FileStep.Create, FileStep.Write, FileStep.Sync, FileStep.Close, FileStep.Rename).foreach { step =>
      failing(step, "run$")(unavailable(stored("1-a.run"))(upload(files, "1-a.run")))
      assert(names.isEmpty)
    }
    assertThrows[java.io.IOException](files.upload(new File(directory, "no such file"), "1-b.run"))
    assert(names.isEmpty)
  }

  test(
    "a read that fails isn't reported as damage: the error names the file, and the next attempt reads it"
  ) {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    val run = commit(files, 1, Nil)
    Seq(FileStep.Open, FileStep.Read).foreach { step =>
      failing(step, "manifest$")(unavailable(stored("1.manifest"))(files.readManifest(1, None)))
      val target = new File(directory, "download")
      failing(step, "run$")(unavailable(stored(run.name))(files.download(run, target, 1)))
      files.download(run, target, 1)
    }
    assert(files.readManifest(1, None).runs == Seq(run))
  }

  test("a purge that fails names the file, and the next one goes on") {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    val one = commit(files, 1, Nil)
    val two = commit(files, 2, Nil)
    failing(FileStep.List, "checkpoint$")(unavailable(checkpoint)(files.purge(1)))
    failing(FileStep.Read, "manifest$")(unavailable(stored("2.manifest"))(files.purge(1)))
    failing(FileStep.Delete, "manifest$")(unavailable(stored("1.manifest"))(files.purge(1)))
    failing(FileStep.Delete, "run$")(unavailable(stored(one.name))(files.purge(1)))
    assert(names == Set("2.manifest", one.name, two.name))
    files.purge(1)
    assert(names == Set("2.manifest", two.name))
  }

  test("purge keeps the newest versions and the runs that they name, and no others") {
    val files = newFiles()
    val one = commit(files, 1, Nil)
    val two = commit(files, 2, Seq(one))
    val three = commit(files, 3, Seq(one))
    val four = commit(files, 4, Seq(one, three))
    files.purge(2)
    assert(names == Set("3.manifest", "4.manifest", one.name, three.name, four.name))
    assert(!names(two.name))
    files.purge(1)
    assert(names == Set("4.manifest", one.name, three.name, four.name))
    val after = names
    files.purge(1)
    assert(names == after)
  }

  test("purge deletes nothing while there are no more versions than to retain") {
    val files = newFiles()
    commit(files, 1, Nil)
    commit(files, 2, Nil)
    val before = names
    files.purge(2)
    files.purge(100)
    assert(names == before)
  }

  test("purge keeps the runs of both manifests of a version that two attempts wrote") {
    val files = newFiles()
    val base = commit(files, 1, Nil, Some("x"))
    val other = commit(files, 1, Nil, Some("y"))
    val a = commit(files, 2, Seq(base), Some("a"))
    val b = commit(files, 2, Seq(other), Some("b"))
    files.purge(1)
    assert(names == Set("2_a.manifest", "2_b.manifest", base.name, other.name, a.name, b.name))
  }

  test(
    "purge: the run of a replaced attempt goes once its version is old, unless a later version is built on it"
  ) {
    val files = newFiles()
    val lost = commit(files, 1, Nil)
    val kept = commit(files, 1, Nil)
    val two = commit(files, 2, Seq(kept))
    files.purge(2)
    assert(names == Set("1.manifest", "2.manifest", lost.name, kept.name, two.name))
    val three = commit(files, 3, Seq(kept))
    files.purge(2)
    assert(names == Set("2.manifest", "3.manifest", kept.name, two.name, three.name))
  }

  test("purge keeps a run whose manifest isn't written yet") {
    val files = newFiles()
    commit(files, 1, Nil)
    commit(files, 2, Nil)
    val early = upload(files, CheckpointFiles.runName(3))
    val slow = upload(files, CheckpointFiles.runName(2))
    files.purge(1)
    assert(names(early.name) && names(slow.name))
  }

  test("purge fails rather than delete runs that a damaged manifest may name") {
    val files = newFiles()
    val one = commit(files, 1, Nil)
    commit(files, 2, Seq(one))
    Damage.flipMiddle(stored("2.manifest"))
    val before = names
    corrupt(stored("2.manifest"))(files.purge(1))
    assert(names == before)
  }

  test("purge doesn't delete files that aren't of the state") {
    val files = newFiles()
    commit(files, 1, Nil)
    Files.createDirectory(stored("_metadata").toPath)
    Files.write(stored("0-notes.txt").toPath, "x".getBytes(UTF_8))
    (2L to 5L).foreach(commit(files, _, Nil))
    files.purge(1)
    assert(Set("_metadata", "0-notes.txt").subsetOf(names))
  }

  /** The time of the version's file, a minute for each version. */
  private def settle(versions: Long*): Unit = versions.foreach { version =>
    assert(stored(s"$version.manifest").setLastModified((1000000 + version * 60) * 1000))
  }

  /** Purges, and no manifest may be read whose name matches. */
  private def purgeWithout(reading: String)(files: CheckpointFiles): Unit = {
    val (_, read) = FileFaults.during(FileFault(FileStep.Read, reading.r))(files.purge(3))
    assert(read.isEmpty)
  }

  private def purgeReads(file: String)(files: CheckpointFiles): Unit =
    failing(FileStep.Read, file + "$")(unavailable(stored(file))(files.purge(3)))

  test("purge reads a manifest once, and again if another attempt has replaced it") {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    (1L to 4L).foreach(commit(files, _, Nil))
    val five = commit(files, 5, Nil)
    settle(1, 2, 3, 4, 5)
    files.purge(3)
    commit(files, 6, Seq(five))
    settle(6)
    purgeWithout("[34].manifest$")(files)
    commit(files, 7, Nil)
    settle(7)
    // When 5 was read first it was the newest, and could have been replaced within the second.
    purgeWithout("5.manifest$")(files)
    commit(files, 8, Nil)
    settle(8)
    purgeReads("8.manifest")(files)
    files.purge(3)
    purgeWithout("[67].manifest$")(files)
    commit(files, 7, Seq(five))
    assert(stored("7.manifest").setLastModified((1000000 + 7 * 60 + 1) * 1000))
    commit(files, 9, Nil)
    settle(9)
    purgeReads("7.manifest")(files)
    files.purge(3)
    assert(names(five.name), "the other attempt's manifest names it")
    commit(files, 10, Nil)
    settle(10)
    files.purge(3)
    assert(!names(five.name))
  }

  test("purge never reads a manifest with an id that was written here, and reads another's once") {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    val one = commit(files, 1, Nil, Some("a"))
    (2L to 5L).foreach(v => commit(files, v, Seq(one), Some("a")))
    purgeWithout("manifest$")(files)
    commit(newFiles(), 5, Seq(one), Some("b"))
    commit(files, 6, Nil, Some("a"))
    purgeReads("5_b.manifest")(files)
    files.purge(3)
    commit(files, 7, Nil, Some("a"))
    purgeWithout("manifest$")(files)
    assert(names(one.name))
    commit(files, 8, Nil, Some("a"))
    purgeWithout("manifest$")(files)
    assert(!names(one.name))
  }

  test("purge of an empty checkpoint does nothing") {
    newFiles().purge(2)
    assert(!checkpoint.exists)
  }
}
