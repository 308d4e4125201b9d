package io.tailrace.state

import java.io.File
import java.nio.file.Files
import java.util.zip.CRC32C

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.scalacheck.Gen
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.checkpoint.Checksum
import io.tailrace.testkit.{FileStep, Slow, WatchedFiles}

/** Runs of a checkpoint, copied in parts to local files. */
final class RunCopySuite extends CheckpointFilesFixture with ScalaCheckPropertyChecks {
  private val random = new Random(3)
  private val part = 32 << 20

  private def newLocal(): File = {
    val file = new File(directory, s"local-${random.nextLong()}")
    assert(file.createNewFile())
    file
  }

  private def downloadAll(files: CheckpointFiles, runs: Run*): Seq[File] = {
    val locals = runs.map(_ => newLocal())
    val copies = runs.zip(locals).map { case (run, file) => files.copyOf(run, file, 1, LocalBytes.None) }
    copies.map(_.hurry()).foreach(RunCopy.await)
    assert(copies.forall(copy => copy.isDone && !copy.hasFailed))
    locals
  }

  private def bytes(length: Int): Array[Byte] = {
    val some = new Array[Byte](length)
    random.nextBytes(some)
    some
  }

  test("the checksum of two texts is that of one after the other") {
    val text = Gen.choose(0, 5000).map(bytes)
    forAll(text, text) { (a, b) =>
      assert(Checksum.combine(Checksum.of(a, a.length), Checksum.of(b, b.length), b.length.toLong) == {
        val both = a ++ b
        Checksum.of(both, both.length)
      })
    }
  }

  test("the checksum of a text that more than 2^32 zeros follow") {
    val zeros = new Array[Byte](1 << 20)
    val (all, behind) = (new CRC32C, new CRC32C)
    all.update(Array[Byte](1, 2, 3))
    (1 to 4100).foreach { _ =>
      all.update(zeros)
      behind.update(zeros)
    }
    val first = Checksum.of(Array[Byte](1, 2, 3), 3)
    assert(Checksum.combine(first, behind.getValue.toInt, 4100L << 20) == all.getValue.toInt)
  }

  test(
    "runs of every number of parts have the bytes that were written, in files of their own and inline",
    Slow
  ) {
    val files = newFiles()
    val contents = Seq(1, part - 1, part, part + 1, 2 * part + 7).map(bytes)
    val own = contents.zipWithIndex.map { case (content, i) =>
      files.upload(WrittenFile.of(local("upload", content)), s"1-$i.run")
    }
    val name = files.newManifest(1, None)
    val inline = contents.indices.map(i => StateFileNames.inline(name, i))
    val written = files.commit(
      name,
      Manifest(1, 0, inline.map(Run(_, 0, 0, Nil))),
      inline
        .zip(contents)
        .map { case (run, content) => run -> WrittenFile.of(local(s"$run-inline", content)) }
        .toMap
    )
    val copies = downloadAll(newFiles(), own ++ written.runs: _*)
    copies.zip(contents ++ contents).foreach { case (copy, content) =>
      assert(Files.mismatch(copy.toPath, local("expected", content).toPath) == -1)
    }
    assert(newFiles().readManifest(1, None) == written)
  }

  test("a damage in any part is found, and the run is named") {
    val files = newFiles()
    val content = bytes(2 * part + 7)
    val run = files.upload(WrittenFile.of(local("upload", content)), "1-a.run")
    Seq(0, part - 1, part, 2 * part + 6).foreach { at =>
      val damaged = content.clone
      damaged(at) = (damaged(at) ^ 1).toByte
      Files.write(stored("1-a.run").toPath, damaged)
      corrupt(stored("1-a.run"))(download(newFiles(), run))
    }
    Seq(content.take(part), content.dropRight(1), content :+ 0.toByte, Array.emptyByteArray).foreach {
      other =>
        Files.write(stored("1-a.run").toPath, other)
        corrupt(stored("1-a.run"))(download(newFiles(), run))
    }
  }

  test("a part that can't be read fails the whole, and names the file") {
    val files = newFiles(WatchedFiles.configure(new Configuration))
    val runs = Seq("1-a.run", "1-b.run").map(name =>
      files.upload(WrittenFile.of(local("upload", bytes(part + 1))), name)
    )
    failing(FileStep.Open, "b.run$")(unavailable(stored("1-b.run"))(downloadAll(files, runs: _*)))
    failing(FileStep.Read, "a.run$")(unavailable(stored("1-a.run"))(downloadAll(files, runs: _*)))
    downloadAll(files, runs: _*)
  }
}
