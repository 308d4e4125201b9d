package io.tailrace.state

import java.io.File
import java.nio.file.Files
import java.util.concurrent.TimeUnit

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.testkit.{Damage, FileStep, TestRow, WatchedFiles}

/** Local files that outlive their executor, and the next owner of their partition. */
final class LocalDirectorySuite extends ComingRunsFixture {
  private def disk: File = new File(directory, "disk")

  private def conf(inline: Boolean = false): Configuration = {
    val conf = WatchedFiles.configure(hadoopConf())
    conf.set(TailraceConf.LocalDirectory.key, disk.getPath)
    conf.set(TailraceConf.BackgroundLoadBytes.key, "0")
    if (inline) conf else withoutInlineRuns(conf)
  }

  private def owner(settings: Configuration = conf()): OwnStore =
    new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), settings)

  /** The partition's directories, one for each owner whose files are there. */
  private def owners: Seq[File] =
    Option(new File(disk, "tailrace-state").listFiles).fold(Seq.empty[File]) { partitions =>
      assert(partitions.length == 1)
      partitions.head.listFiles.toSeq
    }

  private def leftFiles: Seq[File] = owners.flatMap(_.listFiles).filter(_.getName != LocalDirectory.Lock)

  /** What is opened in the checkpoint meanwhile. */
  private def opened[T](body: => T): (T, Seq[String]) = {
    val names = new ArrayBuffer[String]
    val result = WatchedFiles.watchedBy((step, path) =>
      names.synchronized(if (step == FileStep.Open) names += path.getName)
    )(body)
    (result, names.toSeq)
  }

  private def writtenBy(settings: Configuration, batches: Int): Seq[TestRow] = {
    val first = owner(settings)
    val rows = (0L until batches.toLong).map(step(first, _))
    first.close()
    rows
  }

  Seq(true, false).foreach { inline =>
    test(s"the next owner reads nothing but the manifest from the checkpoint: inline runs $inline") {
      val rows = writtenBy(conf(inline), 3)
      assert(leftFiles.size == 3)
      val next = owner(conf(inline))
      val (found, names) = opened {
        val store = load(next, 3)
        assert(store.load.bytes == 0)
        readAndClose(store)
      }
      assert(found == rows)
      assert(names.size == 1 && StateFileNames.manifestVersion(names.head).contains(3))
      // The directory of before goes with the first commit.
      assert(owners.size == 2)
      val added = step(next, 3)
      assert(owners.size == 1)
      assert(readAndClose(load(next, 4)) == rows :+ added)
      next.close()
      assert(leftFiles.size == 4)
    }
  }

  test("what isn't as the manifest says is copied from the checkpoint") {
    val rows = writtenBy(conf(), 3)
    val damages = Seq[File => Unit](
      Damage.flipMiddle,
      file => Files.write(file.toPath, Files.readAllBytes(file.toPath).dropRight(1)): Unit,
      file => Files.write(file.toPath, Files.readAllBytes(file.toPath) :+ 0.toByte): Unit,
      file => Files.write(file.toPath, new Array[Byte](stored(runs.head).length.toInt)): Unit,
      file => Files.write(file.toPath, Array.emptyByteArray): Unit,
      file => assert(file.delete()),
      file => {
        // The file behind a link goes with the directory that it is in.
        val behind = new File(file.getParentFile, "behind").toPath
        Files.move(file.toPath, behind)
        Files.createSymbolicLink(file.toPath, behind): Unit
      }
    )
    damages.foreach { damage =>
      // Without a commit, files that weren't taken are still there.
      leftFiles.filter(_.getName == runs.head).foreach(damage)
      val next = owner()
      val (found, names) = opened(readAndClose(load(next, 3)))
      assert(found == rows)
      assert(names.count(_.endsWith(".run")) == 1)
      next.close()
    }
    // It isn't here and not there.
    leftFiles.filter(_.getName == runs.head).foreach(Damage.flipMiddle)
    Damage.flipMiddle(stored(runs.head))
    val next = owner()
    // If the copy has failed by then, the load says so.
    val error = intercept[TailraceStateException](readAndClose(load(next, 3)))
    assert(error.getCondition == "TAILRACE_STATE_FILE_CORRUPT")
    next.close()
  }

  test("files of an owner that lives aren't touched") {
    val first = owner()
    val rows = (0L to 2L).map(step(first, _))
    val second = owner()
    val (found, names) = opened(readAndClose(load(second, 3)))
    assert(found == rows && names.count(_.endsWith(".run")) == 3)
    val added = step(second, 3)
    assert(owners.size == 2)
    assert(readAndClose(load(first, 3)) == rows)
    first.close()
    assert(readAndClose(load(second, 4)) == rows :+ added)
    second.close()
  }

  test("a task that outlives its owner reads on, and takes nothing from the next one") {
    val first = owner()
    val rows = (0L to 2L).map(step(first, _))
    val zombie = load(first, 3)
    val cursors = zombie.sectionsOf(kind).map(_.cursor())
    first.close()
    val next = owner()
    assert(readAndClose(load(next, 3)) == rows)
    cursors.foreach(_.first())
    assert(cursors.map(cursor => TestRow.read(cursor)) == rows)
    cursors.foreach(_.close())
    zombie.abort()
    LocalDisk.ofExecutor.configure(0)
    assert(readAndClose(load(next, 3)) == rows)
    next.close()
  }

  test("files that the version doesn't name go with the first commit, also of an empty start") {
    writtenBy(conf(), 3)
    val half = new File(owners.head, StateFileNames.run(4))
    Files.write(half.toPath, Array[Byte](1, 2, 3))
    val next = owner()
    add(next.store(0, None, empty = true), TestRow.of("k", 1, 1)).commit()
    assert(!half.exists && owners.size == 1 && leftFiles.size == 1)
    next.close()
  }

  test("of an earlier version, what it names is taken, and what a later one has is not") {
    val rows = writtenBy(conf(), 3)
    val next = owner()
    val (found, names) = opened(readAndClose(load(next, 2)))
    assert(found == rows.take(2) && names.forall(!_.endsWith(".run")))
    val again = step(next, 2)
    assert(readAndClose(load(next, 3)) == rows.take(2) :+ again)
    next.close()
    assert(leftFiles.size == 3)
  }

  test("with little room, what is left is emptied, and comes when it is read") {
    val rows = writtenBy(conf(), 4)
    val settings = withLittleDisk(conf(), runs.map(stored(_).length).max)
    LocalDisk.ofExecutor.configure(runs.map(stored(_).length).max)
    val next = owner(settings)
    val store = load(next, 4)
    eventually(assert(leftFiles.count(_.length > 0) == 1))
    assert(readAndClose(store) == rows)
    assert(leftFiles.count(_.length > 0) == 1)
    next.close()
  }

  test("another checkpoint's files are its own") {
    writtenBy(conf(), 1)
    def of(location: String) =
      LocalDirectory.of("0-0", new Path(location), key => Option(conf().get(key)), isDurable = true)
    val (a, b) = (of("s3a://bucket/a/state/0/0"), of("s3a://bucket/b/state/0/0"))
    assert(a.path.getParentFile != b.path.getParentFile)
    Seq(a, b).foreach(_.close())
    // Closed without files, they leave nothing.
    assert(owners.size == 1)
  }

  test("with durability none, nothing outlives its owner: the checkpoint doesn't have it") {
    val settings = conf()
    settings.set(TailraceConf.StateDurability.key, "none")
    writtenBy(settings, 2)
    assert(!disk.exists)
  }

  test("a reader of the checkpoint beside the query takes nothing") {
    val rows = writtenBy(conf(), 2)
    assert(readAndClose(open(newProvider(hadoop = conf()), 2)) == rows)
    assert(leftFiles.size == 2)
  }

  test("what nobody has used for a day is deleted, but not of an owner that lives") {
    writtenBy(conf(), 2)
    val root = new File(disk, "tailrace-state")
    val now = System.currentTimeMillis
    LocalDirectory.sweep(root, now + LocalDirectory.KeptMillis - TimeUnit.MINUTES.toMillis(1))
    assert(leftFiles.size == 2)
    val next = owner()
    val later = now + LocalDirectory.KeptMillis + TimeUnit.MINUTES.toMillis(1)
    // The next owner holds both.
    LocalDirectory.sweep(root, later)
    assert(owners.size == 2)
    next.close()
    LocalDirectory.sweep(root, later)
    assert(root.list.isEmpty)
  }

  test("a directory that can't be made is named") {
    Files.write(disk.toPath, Array[Byte](1))
    val error = intercept[TailraceStateException](owner())
    assert(error.getCondition == "TAILRACE_STATE_FILE_UNAVAILABLE")
    assert(error.getMessageParameters.get("file").startsWith(disk.getPath))
  }
}
