package io.tailrace.state

import java.io.{File, RandomAccessFile}
import java.nio.file.{Files, StandardOpenOption}

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.network.util.JavaUtils

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.testkit.{Damage, FileStep, TestRow, Warnings, WatchedFiles}

/** Local files of a partition's state that somebody deletes, cuts or flips while they are in use. */
final class LocalDamageSuite extends ComingRunsFixture {
  private val random = new Random(11)

  private val damages: Seq[(String, File => Unit)] = Seq(
    "deleted" -> (file => assert(file.delete())),
    "emptied" -> (Damage.truncate(_, 0)),
    "cut" -> (file => Damage.truncate(file, file.length / 2)),
    "cut by a byte" -> (file => Damage.truncate(file, file.length - 1)),
    "longer" -> (file => Files.write(file.toPath, Array[Byte](0), StandardOpenOption.APPEND): Unit),
    "another content" -> (file => Files.write(file.toPath, new Array[Byte](file.length.toInt)): Unit),
    "flipped at its end" -> (flipEnd(_))
  )

  /** In RocksDB's magic number: the bytes before it are mostly padding. */
  private def flipEnd(file: File): Unit =
    if (file.length > 4) Damage.flipBit(file, file.length.toInt - 4)

  private def conf(inline: Boolean): Configuration =
    if (inline) hadoopConf() else withoutInlineRuns(hadoopConf())

  private def owner(settings: Configuration): OwnStore =
    new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), settings)

  /** Many pages, which compression makes no smaller, of few rows each. */
  private def manyPages(rows: Int): Seq[TestRow] = (0 until rows).map { i =>
    TestRow(TestRow.key(f"k$i%06d"), i.toLong, i.toLong, Vector.fill(5000)(random.nextInt(256).toByte))
  }

  private def locals(owner: OwnStore): Seq[File] =
    owner.localFile("x").getParentFile.listFiles.filter(_.isFile).toSeq.sortBy(_.getName)

  private def bytesOfCheckpoint: Map[String, Seq[Byte]] =
    checkpointFiles.map(name => name -> Files.readAllBytes(stored(name).toPath).toSeq).toMap

  /** The store of version 1, with these rows, by an executor that has committed it. */
  private def written(owner: OwnStore, of: StoreKind, rows: Seq[TestRow]): TailraceStateStore = {
    val store = load(owner, 0)
    store.addRun(Long.MaxValue, of -> bufferOf(rows))
    store.commit()
    load(owner, 1)
  }

  private def conditionOf(body: => Any): (String, Map[String, String]) = {
    val error = intercept[TailraceStateException](body)
    import scala.jdk.CollectionConverters._
    error.getCondition -> error.getMessageParameters.asScala.toMap
  }

  private def path(text: String): String = new Path(text).toUri.getPath

  for (inline <- Seq(true, false); (name, damage) <- damages)
    test(
      s"a local file that is $name is made again from the checkpoint, counted and told: inline runs $inline"
    ) {
      val one = owner(conf(inline))
      val rows = (0L to 2L).map(step(one, _))
      val before = bytesOfCheckpoint
      val damaged = locals(one)(1)
      damage(damaged)
      val told = Warnings.of(classOf[LocalRun].getName) {
        val store = load(one, 3)
        assert(rowsOf(store, kind) == rows)
        assert(store.takeReplacedCopies() == 1 && store.takeReplacedCopies() == 0)
        store.abort()
      }
      assert(told.size == 1 && told.head.contains("TAILRACE_STATE_LOCAL_COPY_REPLACED"), told)
      assert(told.head.contains(damaged.getPath) && told.head.contains(storeDirectory.getPath), told)
      assert(bytesOfCheckpoint == before)
      val more = step(one, 3)
      assert(readAndClose(load(one, 4)) == rows :+ more)
      one.close()
    }

  for (inline <- Seq(true, false); (name, damage) <- damages)
    test(s"a scan goes on where it was when the file is $name under it: inline runs $inline") {
      val rows = manyPages(40)
      val one = owner(conf(inline))
      Seq(0, 1, 5, 38).foreach { readBefore =>
        val store = if (readBefore == 0) written(one, kind, rows) else load(one, 1)
        val cursor = store.sectionsOf(kind).head.cursor()
        val found = new ArrayBuffer[TestRow]
        cursor.first()
        while (cursor.isValid) {
          found += TestRow.read(cursor)
          if (found.size == readBefore + 1) locals(one).headOption.foreach(damage)
          cursor.next()
        }
        cursor.close()
        assert(found.toSeq == rows, readBefore)
        assert(rowsOf(store, kind) == rows)
        store.abort()
      }
      one.close()
    }

  test("with any byte flipped, before a scan or during it, each row is read once") {
    val rows = manyPages(12)
    val one = owner(conf(inline = false))
    written(one, kind, rows).abort()
    val length = locals(one).head.length.toInt
    var replaced = 0L
    val positions = Seq.fill(120)(random.nextInt(length)) ++ (length - 400 until length by 7)
    positions.foreach { at =>
      val store = load(one, 1)
      val cursor = store.sectionsOf(kind).head.cursor()
      val turn = random.nextInt(rows.size)
      cursor.first()
      val found = rows.indices.map { i =>
        if (i == turn) Damage.flipBit(locals(one).head, at)
        val row = TestRow.read(cursor)
        cursor.next()
        row
      }
      assert(found == rows && !cursor.isValid, s"byte $at at row $turn")
      cursor.close()
      assert(rowsOf(store, kind) == rows, s"byte $at")
      replaced += store.takeReplacedCopies()
      store.abort()
    }
    // Blocks that RocksDB's cache has are right, whatever their file has become.
    assert(replaced > 0)
    one.close()
  }

  test("seeks in a damaged file, back and forth, find what is there") {
    val of = StoreKind.RightKeySorted
    val rows = manyPages(60)
    val one = owner(conf(inline = false))
    written(one, of, rows).abort()
    var replaced = 0L
    (1 to 40).foreach { _ =>
      val store = load(one, 1)
      val cursor = store.sectionsOf(of).head.cursor()
      (1 to 5).foreach { _ =>
        val (name, damage) = damages(random.nextInt(damages.size))
        locals(one).headOption.foreach(damage)
        val at = random.nextInt(rows.size)
        cursor.seekKey(rows(at).layout, TestRow.At)
        val left = Math.min(rows.size - at, 1 + random.nextInt(4))
        val found = (0 until left).map { _ =>
          val row = TestRow.read(cursor)
          cursor.next()
          row
        }
        assert(found == rows.slice(at, at + left), name)
        cursor.seekKey(TestRow.of("zzz", 1, 1).layout, TestRow.At)
        assert(!cursor.isValid, name)
      }
      cursor.close()
      assert(rowsOf(store, of) == rows)
      replaced += store.takeReplacedCopies()
      store.abort()
    }
    assert(replaced > 0)
    one.close()
  }

  test("of several readers side by side, all go on, and one copy takes the file's place") {
    val rows = manyPages(40)
    val one = owner(conf(inline = false))
    val stores = written(one, kind, rows) +: Seq.fill(5)(load(one, 1))
    val cursors = stores.map(_.sectionsOf(kind).head.cursor())
    cursors.foreach(_.first())
    locals(one).foreach(Damage.truncate(_, 100))
    val found = cursors.map(_ => new ArrayBuffer[TestRow])
    val threads = cursors.zip(found).map { case (cursor, rows) =>
      inThread {
        while (cursor.isValid) {
          rows += TestRow.read(cursor)
          cursor.next()
        }
      }
    }
    threads.foreach(_.join())
    found.foreach(of => assert(of.toSeq == rows))
    assert(stores.head.takeReplacedCopies() == 1)
    cursors.foreach(_.close())
    stores.foreach(_.abort())
    assert(readAndClose(load(one, 1)) == rows)
    one.close()
  }

  test("where the checkpoint's file is damaged too, or gone, the error names that one, until it is back") {
    val rows = (0L to 1L).map(step(owner(conf(inline = false)), _))
    val run = stored(runs.head)
    val whole = Files.readAllBytes(run.toPath)
    Seq[(String, () => Unit)](
      "TAILRACE_STATE_FILE_CORRUPT" -> (() => Damage.flipMiddle(run)),
      "TAILRACE_STATE_FILE_MISSING" -> (() => assert(run.delete()))
    ).foreach { case (condition, damage) =>
      val one = owner(conf(inline = false))
      load(one, 2).abort()
      damage()
      Damage.truncate(locals(one).find(_.getName == run.getName).get, 10)
      (1 to 2).foreach { _ =>
        val (found, parameters) = conditionOf(readAndClose(load(one, 2)))
        assert(found == condition && path(parameters("file")) == run.getPath)
      }
      Files.write(run.toPath, whole)
      assert(readAndClose(load(one, 2)) == rows)
      one.close()
    }
  }

  test("a file that was damaged before it came into the checkpoint is the checkpoint's damage") {
    val one = owner(conf(inline = false))
    step(one, 0)
    val (good, bad) = (stored(runs.head), new File(directory, "bad"))
    Files.copy(good.toPath, bad.toPath)
    flipEnd(bad)
    val files = new CheckpointFiles(storeId.storeCheckpointLocation(), hadoopConf())
    val run = files.upload(WrittenFile.of(bad), "1-bad.run")
    val local = new File(directory, "local")
    val opened = new LocalRun(run.name, local, Some(files.copyOf(run, local, 1, LocalBytes.None)))
    opened.acquire()
    val (condition, parameters) = conditionOf(opened.open())
    assert(
      condition == "TAILRACE_STATE_FILE_CORRUPT" && path(parameters("file")) == stored("1-bad.run").getPath
    )
    opened.release()
    one.close()
  }

  test("a disk that damages each copy again is told from a damaged checkpoint") {
    val settings = WatchedFiles.configure(conf(inline = false))
    val one = owner(settings)
    step(one, 0)
    val (local, original) = (locals(one).head, stored(runs.head))
    // Each time the same: the watcher is asked several times while a file is copied.
    def spoil(): Unit = {
      val bytes = new RandomAccessFile(local, "rw")
      try {
        bytes.seek(bytes.length - 4)
        bytes.writeInt(0)
      } finally bytes.close()
    }
    spoil()
    // The reader looks whether there is more behind the last byte, which is in the local file then.
    val bad: WatchedFiles.Watcher = (step, file) =>
      if (step == FileStep.Read && file.getName == original.getName && local.length == original.length)
        spoil()
    WatchedFiles.watchedBy(bad) {
      val store = load(one, 1)
      val (condition, parameters) = conditionOf(rowsOf(store, kind))
      assert(condition == "TAILRACE_STATE_LOCAL_COPY")
      assert(parameters("file") == local.getPath && path(parameters("original")) == original.getPath)
      assert(store.takeReplacedCopies() == 3)
      store.abort()
    }
    // With another disk, that is.
    assert(readAndClose(load(one, 1)).size == 1)
    one.close()
  }

  Seq(true, false).foreach { kept =>
    test(s"the folder itself is made again: with a local directory of one's own $kept") {
      val settings = conf(inline = false)
      if (kept) settings.set(TailraceConf.LocalDirectory.key, new File(directory, "disk").getPath)
      val one = owner(settings)
      val rows = new ArrayBuffer[TestRow]
      (0L to 2L).foreach(version => rows += step(one, version))
      val folder = one.localFile("x").getParentFile
      JavaUtils.deleteRecursively(folder)
      rows += step(one, 3)
      assert(readAndClose(load(one, 4)) == rows)
      val store = load(one, 4)
      JavaUtils.deleteRecursively(folder.getParentFile)
      assert(rowsOf(store, kind) == rows)
      val row = TestRow.of("k", 9, 9)
      add(store, row).commit()
      assert(readAndClose(load(one, 5)) == rows :+ row)
      // Another one takes nothing from it as long as it lives.
      val second = owner(settings)
      assert(readAndClose(load(second, 5)) == rows :+ row)
      locals(one).filter(_.getName != LocalDirectory.Lock).foreach(file => assert(file.length > 0))
      second.close()
      one.close()
    }
  }

  test("a task's own file is named as such") {
    val one = owner(conf(inline = true))
    val store = load(one, 0)
    val scratch = store.scratch(SortedRows.all(kind, bufferOf(TestRow.of("k", 1, 1)), Long.MaxValue))
    locals(one).foreach(Damage.truncate(_, 10))
    val (condition, parameters) = conditionOf(scratch.sections.head.cursor())
    assert(condition == "TAILRACE_STATE_LOCAL_FILE" && parameters("content") == LocalContent.Scratch.words)
    scratch.close()
    store.abort()
    one.close()
  }

  test("rows that a batch has written come into the checkpoint as they were, or not at all") {
    val one = owner(conf(inline = true))
    val store = add(load(one, 0), TestRow.of("k", 1, 1))
    Damage.flipMiddle(locals(one).head)
    val (condition, parameters) = conditionOf(store.commit())
    assert(condition == "TAILRACE_STATE_LOCAL_FILE" && parameters("content") == LocalContent.Added.words)
    assert(checkpointFiles.isEmpty)
    store.abort()
    // The task's next attempt.
    assert(readAndClose(load(one, 0)).isEmpty)
    val row = step(one, 0)
    assert(readAndClose(load(one, 1)) == Seq(row))
    one.close()
  }

  test("with durability none the error says that there is no other copy") {
    val settings = hadoopConf()
    settings.set(TailraceConf.StateDurability.key, "none")
    val one = owner(settings)
    step(one, 0)
    locals(one).foreach(Damage.truncate(_, 10))
    assert(conditionOf(readAndClose(load(one, 1)))._1 == "TAILRACE_STATE_ONLY_COPY")
    one.close()
  }

  Seq(false, true).foreach { isInPart =>
    test(s"what a command has copied of a checkpoint is copied again: of few pages $isInPart") {
      val rows = manyPages(30)
      val one = owner(conf(inline = true))
      written(one, kind, rows).abort()
      damages.foreach { case (name, damage) =>
        val files = new CheckpointFiles(storeId.storeCheckpointLocation(), hadoopConf())
        val own = new File(directory, s"outside-$name")
        assert(own.mkdir())
        val outside = new OutsideState(own, files, 1, None, RowShapes.AsWritten, isInPart)
        val cursor = outside.state.sections.head.cursor()
        val found = new ArrayBuffer[TestRow]
        cursor.first()
        while (cursor.isValid) {
          found += TestRow.read(cursor)
          if (found.size == 2) own.listFiles.foreach(damage)
          cursor.next()
        }
        cursor.close()
        assert(found.toSeq == rows, name)
        outside.close()
        assert(!own.exists)
      }
      one.close()
    }
  }

  test("a compaction of damaged files loses no row") {
    val settings = conf(inline = false)
    settings.set(TailraceConf.CompactionRuns.key, "4")
    val one = owner(settings)
    val rows = new ArrayBuffer[TestRow]
    (0L to 30L).foreach { version =>
      val (_, damage) = damages(random.nextInt(damages.size))
      val files = locals(one)
      if (files.nonEmpty) damage(files(random.nextInt(files.size)))
      rows += step(one, version)
      Compactor.awaitEnd()
    }
    val store = load(one, 31)
    assert(store.files < 12)
    assert(rowsOf(store, kind).toSet == rows.toSet)
    assert(store.takeReplacedCopies() > 0)
    store.abort()
    one.close()
  }
}
