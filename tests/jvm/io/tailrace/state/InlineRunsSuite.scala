package io.tailrace.state

import java.io.ByteArrayInputStream
import java.nio.file.Files

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.TestRow

/** Runs in the file of the manifest that makes their version. */
final class InlineRunsSuite extends OwnStoreFixture {

  test("a missing or damaged inline run stops the load, each time, and leaves nothing behind") {
    (0L to 1L).foreach(step(newOwner(), _))
    val (owner, file) = (newOwner(), manifest(1))
    val whole = Files.readAllBytes(file.toPath)
    val text = Manifest.readText(new ByteArrayInputStream(whole)).length
    // Version 2 needs only the rows of this file; version 1 needs its text too.
    val damages = Seq(text + 10, whole.length - 1).map { at =>
      val flipped = whole.clone
      flipped(at) = (flipped(at) ^ 1).toByte
      flipped
    }
    val cut = Seq(whole.length - 1, text, text - 1).map(whole.take(_))
    (damages ++ cut).foreach { bytes =>
      Files.write(file.toPath, bytes)
      (1 to 2).foreach(_ => assertFails("TAILRACE_STATE_FILE_CORRUPT", file, owner)(load(owner, 2)))
      assertFails("TAILRACE_STATE_FILE_CORRUPT", file, owner)(load(owner, 1))
    }
    assert(file.delete())
    (1 to 2).foreach(_ => assertFails("TAILRACE_STATE_FILE_MISSING", file, owner)(load(owner, 2)))
    Files.write(file.toPath, whole)
    assert(readAndClose(load(owner, 2)).size == 2)
  }

  test("maintenance keeps a manifest's file as long as a retained version has rows in it") {
    val owner = newOwner(retain(2))
    val rows = (0L to 4L).map(step(owner, _))
    owner.maintain()
    assert(plainNames == (1 to 5).map(v => s"$v.manifest").toSet)
    val dropping = load(owner, 5)
    dropping.dropThrough(kind, 1)
    dropping.commit()
    (6L to 7L).foreach(load(owner, _).commit())
    owner.maintain()
    // Of versions that are gone, 3 to 5 have rows that are alive.
    assert(plainNames == (3 to 8).map(v => s"$v.manifest").toSet)
    assert(readAndClose(load(newOwner(), 8)) == rows.drop(2))
    assert(readAndClose(load(newOwner(), 6)) == rows.drop(2))
  }

  test("a version is one file up to the inline bytes, and larger runs have files of their own") {
    // Values of 8 bytes, as rows have them: a shorter one's padding isn't cleared, and changes a run's length.
    val rows = (1L to 3L).map(i => TestRow.of(s"k$i", i, i, s"number $i"))
    def commit(inlineBytes: Long): Seq[TestRow] = {
      emptyDirectory()
      val conf = hadoopConf()
      conf.set(TailraceConf.InlineRunBytes.key, inlineBytes.toString)
      val store = load(new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), conf), 0)
      rows.foreach(add(store, _))
      store.commit()
      readAndClose(load(newOwner(), 1))
    }
    assert(commit(0) == rows)
    val runs = checkpointFiles.filter(_.endsWith(".run"))
    assert(runs.size == 3 && plainNames == runs + "1.manifest")
    val sizes = runs.toSeq.map(stored(_).length)
    assert(commit(sizes.sum) == rows)
    assert(plainNames == Set("1.manifest"))
    assert(commit(sizes.sum - 100) == rows)
    assert(checkpointFiles.count(_.endsWith(".run")) == 1)
  }

  test("an inline run without a row that counts isn't written, and the ones beside it are found") {
    val store = load(newOwner(), 0)
    val runs = (1L to 3L).map(i => TestRow.of(s"k$i", i, i, s"v$i")).map { row =>
      store.addRun(1000, kind -> bufferOf(Seq(row))).head.local -> row
    }
    store.dropRun(runs.head._1)
    store.commit()
    val text = Manifest.readText(new ByteArrayInputStream(Files.readAllBytes(manifest(1).toPath)))
    assert(manifest(1).length == text.length + runs.tail.map(_._1.file.length).sum)
    assert(readAndClose(load(newOwner(), 1)) == runs.tail.map(_._2))
  }
}
