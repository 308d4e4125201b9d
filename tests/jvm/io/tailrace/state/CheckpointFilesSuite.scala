package io.tailrace.state

import java.io.File
import java.nio.file.{Files, StandardOpenOption}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.tailrace.RetriedTask

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Damage, FileStep, WatchedFiles}

final class CheckpointFilesSuite extends CheckpointFilesFixture {

  test("a run that was uploaded is downloaded with the same bytes") {
    val run = upload(newFiles(), "1-a.run")
    assert(run.length == content.length)
    assert(Files.readAllBytes(download(newFiles(), run).toPath).sameElements(content))
  }

  test("a manifest is read back by version, and by id where it has one") {
    val manifest = Manifest(3, 5, Seq(Run("3-a.run", 1, 2, Nil)))
    val one = write(newFiles(), manifest)
    val other = write(newFiles(), manifest.copy(expiredThrough = 6), Some("x"))
    assert(names == Set(one.getName, other.getName) && other.getName == "3_x.manifest")
    assert(newFiles().readManifest(3, None) == manifest)
    assert(newFiles().readManifest(3, Some("x")).expiredThrough == 6)
  }

  test("versions are those with a manifest, and a query for them creates no directory") {
    assert(newFiles().versions.isEmpty)
    missing(stored("3.*.manifest"))(newFiles().readManifest(3, None))
    assert(!checkpoint.exists)
    commit(newFiles(), 3, Nil)
    commit(newFiles(), 4, Nil, Some("x"))
    commitBefore(2)
    upload(newFiles(), StateFileNames.run(5))
    assert(newFiles().versions == Set(2, 3, 4))
  }

  test("a later attempt's manifest of a version counts, also after one of an earlier release") {
    commitBefore(3)
    assert(newFiles().readManifest(3, None).expiredThrough == 0)
    (1L to 12L).foreach { attempt =>
      write(newFiles(), Manifest(3, attempt, Nil))
      assert(newFiles().readManifest(3, None).expiredThrough == attempt)
    }
    val files = newFiles()
    val (early, late) = (files.newManifest(3, None), files.newManifest(3, None))
    files.commit(late, Manifest(3, 101, Nil), Map.empty)
    files.commit(early, Manifest(3, 100, Nil), Map.empty)
    assert(newFiles().readManifest(3, None).expiredThrough == 101)
  }

  test("the manifest of a task that runs once more counts, wherever its first attempt has run") {
    (1L to 12L).foreach { version =>
      val (first, second) = (newFiles(), newFiles())
      // Both know the directory from before.
      Seq(first, second).foreach(_.newManifest(version, None))
      write(first, Manifest(version, 1, Nil))
      RetriedTask.during(write(second, Manifest(version, 2, Nil)))
      assert(newFiles().readManifest(version, None).expiredThrough == 2)
    }
  }

  test("a missing manifest is named") {
    missing(stored("3.*.manifest"))(newFiles().readManifest(3, None))
    write(newFiles(), Manifest(3, 5, Nil))
    missing(stored("3_x.manifest"))(newFiles().readManifest(3, Some("x")))
  }

  test("a missing run is named") {
    val run = upload(newFiles(), "1-a.run")
    assert(stored("1-a.run").delete())
    missing(stored("1-a.run"))(download(newFiles(), run))
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
      val file = write(managed(), Manifest(3, 5, Nil))
      Damage.flipMiddle(file)
      corrupt(file)(managed().readManifest(3, None))
    }

    Seq[(String, File => Unit)](
      "flipped bit" -> Damage.flipMiddle,
      "lost end" -> (f => Damage.truncate(f, f.length - 1)),
      "lost content" -> (f => Damage.truncate(f, 0))
    ).foreach { case (what, damage) =>
      test(s"a run with a $what is named, found by $by") {
        val run = upload(managed(), "1-a.run")
        damage(stored("1-a.run"))
        corrupt(stored("1-a.run"))(download(managed(), run))
      }
    }
  }

  test("a manifest under the name of another version is refused") {
    val file = write(newFiles(), Manifest(3, 5, Nil))
    Files.copy(file.toPath, stored("4.1-a.manifest").toPath)
    corrupt(stored("4.1-a.manifest"))(newFiles().readManifest(4, None))
  }

  test("a write that fails leaves no file, and the error names it") {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    Seq(FileStep.Create, FileStep.Write, FileStep.Sync, FileStep.Close, FileStep.Rename).foreach { step =>
      failing(step, "run$")(unavailable(stored("1-a.run"))(upload(files, "1-a.run")))
      assert(names.isEmpty)
    }
  }

  test("of a local file that isn't any more as it was written, the checkpoint gets nothing") {
    val files = newFiles()
    Seq[File => Unit](
      file => assert(file.delete()),
      Damage.flipMiddle,
      file => Damage.truncate(file, file.length - 1),
      file => Files.write(file.toPath, Array[Byte](0), StandardOpenOption.APPEND): Unit
    ).foreach { damage =>
      val written = WrittenFile.of(local("written"))
      damage(written.file)
      val name = files.newManifest(1, None)
      val inline = StateFileNames.inline(name, 0)
      Seq[() => Any](
        () => files.upload(written, "1-b.run"),
        () => files.commit(name, Manifest(1, 0, Seq(Run(inline, 0, 0, Nil))), Map(inline -> written))
      ).foreach { write =>
        val error = intercept[TailraceStateException](write())
        assert(error.getCondition == "TAILRACE_STATE_LOCAL_FILE")
        assert(error.getMessageParameters.get("file") == written.file.getPath)
        assert(names.isEmpty)
      }
    }
  }

  test(
    "a read that fails isn't reported as damage: the error names the file, and the next attempt reads it"
  ) {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    val run = commit(files, 1, Nil)
    Seq(FileStep.Open, FileStep.Read).foreach { step =>
      failing(step, "manifest$")(unavailable(manifest(1))(files.readManifest(1, None)))
      failing(step, "run$")(unavailable(stored(run.name))(download(files, run)))
      download(files, run)
    }
    assert(files.readManifest(1, None).runs == Seq(run))
  }
}
