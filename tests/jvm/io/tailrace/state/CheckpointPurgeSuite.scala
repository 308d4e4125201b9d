package io.tailrace.state

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Damage, FileFault, FileFaults, FileStep, WatchedFiles}

/** Which versions and runs a purge keeps, and what it reads for that. */
final class CheckpointPurgeSuite extends CheckpointFilesFixture {

  test("a purge that fails names the file, and the next one goes on") {
    val files = newWatched()
    val one = commit(files, 1, Nil)
    val two = commit(files, 2, Nil)
    failing(FileStep.List, "checkpoint/?$")(unavailable(checkpoint)(newWatched().purge(1)))
    failing(FileStep.Read, "manifest$")(unavailable(manifest(2))(newWatched().purge(1)))
    failing(FileStep.Delete, "manifest$")(unavailable(manifest(1))(files.purge(1)))
    failing(FileStep.Delete, "run$")(unavailable(stored(one.name))(files.purge(1)))
    assert(names == manifests(2) ++ Set(one.name, two.name))
    files.purge(1)
    assert(names == manifests(2) + two.name)
  }

  test("purge keeps the newest versions and the runs that they name, and no others") {
    val files = newFiles()
    val one = commit(files, 1, Nil)
    val two = commit(files, 2, Seq(one))
    val three = commit(files, 3, Seq(one))
    val four = commit(files, 4, Seq(one, three))
    files.purge(2)
    assert(names == manifests(3, 4) ++ Set(one.name, three.name, four.name))
    assert(!names(two.name))
    files.purge(1)
    assert(names == manifests(4) ++ Set(one.name, three.name, four.name))
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
    val attempts = names.filter(StateFileNames.manifestVersion(_).contains(1))
    assert(attempts.size == 2)
    assert(names == attempts ++ manifests(2) ++ Set(lost.name, kept.name, two.name))
    val three = commit(files, 3, Seq(kept))
    files.purge(2)
    assert(names == manifests(2, 3) ++ Set(kept.name, two.name, three.name))
  }

  test("purge keeps a run whose manifest isn't written yet") {
    val files = newFiles()
    commit(files, 1, Nil)
    commit(files, 2, Nil)
    val early = upload(files, StateFileNames.run(3))
    val slow = upload(files, StateFileNames.run(2))
    files.purge(1)
    assert(names(early.name) && names(slow.name))
  }

  test("purge fails rather than delete runs that a damaged manifest may name") {
    val files = newFiles()
    val one = commit(files, 1, Nil)
    commit(files, 2, Seq(one))
    Damage.flipMiddle(manifest(2))
    val before = names
    corrupt(manifest(2))(newFiles().purge(1))
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

  private def newWatched() = newFiles(WatchedFiles.configure(new Configuration))

  /** Purges, and no manifest may be read whose name matches. */
  private def purgeWithout(reading: String)(files: CheckpointFiles): Unit = {
    listAgain(files)
    val (_, read) = FileFaults.during(FileFault(FileStep.Read, reading.r))(files.purge(3))
    assert(read.isEmpty)
  }

  private def purgeReads(file: String)(files: CheckpointFiles): Unit = {
    listAgain(files)
    failing(FileStep.Read, file + "$")(unavailable(stored(file))(files.purge(3)))
  }

  private def listAgain(files: CheckpointFiles): Unit = assert(files.versions.nonEmpty)

  test("purge reads a manifest of an earlier release each time: another attempt may have replaced it") {
    val files = newWatched()
    def commitBefore(version: Long, earlier: Run*): Run = {
      val run = upload(files, StateFileNames.run(version))
      this.commitBefore(version, earlier :+ run: _*)
      run
    }
    (1L to 4L).foreach(commitBefore(_))
    val five = commitBefore(5)
    commitBefore(6, five)
    commitBefore(7)
    purgeReads("7.manifest")(files)
    files.purge(3)
    commitBefore(7, five)
    commitBefore(8)
    commitBefore(9)
    listAgain(files)
    files.purge(3)
    assert(names(five.name), "the other attempt's manifest names it")
    commitBefore(10)
    listAgain(files)
    files.purge(3)
    assert(!names(five.name))
  }

  test("purge never reads a manifest that was written here, and reads another's once") {
    val files = newWatched()
    val one = commit(files, 1, Nil, Some("a"))
    (2L to 5L).foreach(v => commit(files, v, Seq(one), Some("a")))
    purgeWithout("manifest$")(files)
    commit(newFiles(), 5, Seq(one), Some("b"))
    commit(files, 6, Nil, Some("a"))
    files.readManifest(6, Some("a"))
    purgeReads("5_b.manifest")(files)
    files.purge(3)
    commit(files, 7, Nil, Some("a"))
    purgeWithout("manifest$")(files)
    assert(names(one.name))
    commit(files, 8, Nil, Some("a"))
    purgeWithout("manifest$")(files)
    assert(!names(one.name))
  }

  test("purge lists at first, when a version was read, and each 32nd time: then it finds what others left") {
    val files = newWatched()
    (1L to 15L).foreach(commit(files, _, Nil))
    def lists(): Boolean = {
      val (_, listed) = FileFaults.during(FileFault(FileStep.List, "checkpoint$".r)) {
        try files.purge(12)
        catch { case _: TailraceStateException => () }
      }
      listed.nonEmpty
    }
    // A listing for the first attempt.
    assert(!lists() && names.size == 24)
    val lost = upload(newFiles(), StateFileNames.run(1))
    assert((2 to 32).forall(_ => !lists()) && names(lost.name))
    assert(lists())
    files.purge(12)
    assert(!names(lost.name) && !lists())
    commit(files, 16, Nil, Some("x"))
    files.readManifest(16, Some("x"))
    assert(lists())
  }

  test("where few versions are retained, a run stays that another executor's version still names") {
    val (one, other) = (newFiles(), newFiles())
    val run = commit(one, 1, Nil)
    other.readManifest(1, None)
    // Both make each version, one without the run. Each goes on from its own.
    (2L to 3L).foreach { version =>
      commit(one, version, Nil)
      commit(other, version, Seq(run))
    }
    commit(one, 4, Nil)
    one.purge(3)
    assert(names(run.name))
  }

  test("purge of an empty checkpoint does nothing") {
    newFiles().purge(2)
    assert(!checkpoint.exists)
  }
}
