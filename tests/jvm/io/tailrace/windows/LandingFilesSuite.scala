package io.tailrace.windows

import java.nio.file.Files

import org.apache.hadoop.fs.Path

import io.tailrace.checkpoint.Checksum
import io.tailrace.common.TailraceStateException

/** Files of a folder that are gone, or of another release. */
final class LandingFilesSuite extends LandingSuite {

  test("a missing staged file is an error that names it; files may be taken away when all have landed") {
    landed(0)
    names("w=19700101T000000Z").foreach(n =>
      Files.delete(directory.toPath.resolve("out/w=19700101T000000Z").resolve(n))
    )
    opened()
    DyingFileSystem.live(Int.MaxValue)
    val folder = opened()
    folder.begin("query", 2)
    val (staging, files) = stage(folder, 2)
    DyingFileSystem.dieBefore(step => step.startsWith("rename") && step.contains("/w="))
    intercept[Exception](folder.land(2, "offsets of 2", staging, files))
    assert(names("_tailrace/batches").contains("2.batch"))
    DyingFileSystem.live(Int.MaxValue)
    files.foreach(f => staging.getFileSystem(conf).delete(new Path(staging, f.path), false))
    assert(condition(opened()) == "TAILRACE_WINDOWS_FILE_MISSING")
  }

  private def file(name: String) = directory.toPath.resolve("out").resolve(name)

  test("each missing file of a folder's log is an error that names it") {
    def gone(name: String)(next: => Any): Unit = {
      val bytes = Files.readAllBytes(file(name))
      Files.delete(file(name))
      val e = intercept[TailraceStateException](next)
      assert(e.getCondition == "TAILRACE_STATE_FILE_MISSING", name)
      assert(e.getMessageParameters.get("file").contains(new Path(name).getParent.toString), name)
      Files.write(file(name), bytes)
    }
    landed(0).close(10, reports)
    gone("_tailrace/folder")(opened().begin("query", 1))
    gone("_tailrace/batches/0.batch")(opened().landed(1, "offsets of 1"))
    // The closing after the newest batch is known by its marks, earlier ones by that batch.
    gone("_tailrace/closed/0.closed")(opened())
    val folder = opened()
    folder.land(1, "offsets of 1", folder.newStaging(1), Nil)
    gone("_tailrace/closed/0.closed")(opened())
    gone("_tailrace/batches/1.batch")(opened().landed(2, "offsets of 2"))
    assert(opened().landed(2, "offsets of 2").isEmpty)
  }

  test("a folder of an earlier release, which has no file of a batch without rows, goes on") {
    landed(0)
    val batch = Files.readString(file("_tailrace/batches/0.batch")).linesIterator.toSeq(1)
    Seq(
      "batches/0.batch" -> batch,
      "folder" -> Files.readString(file("_tailrace/folder")).linesIterator.toSeq(1)
    )
      .foreach { case (name, json) =>
        val lines = s"tailrace-windows 1\n${json.replaceAll(",\"(closings|since)\":\\d+", "")}\n"
        Files.writeString(file(s"_tailrace/$name"), s"$lines${Checksum.hex(lines)}\n")
      }
    val folder = opened()
    folder.begin("query", 5)
    assert(folder.landed(5, "offsets of 5").isEmpty)
  }

  test("a missing staging directory is an error when the batch runs again") {
    val folder = opened()
    DyingFileSystem.live(Int.MaxValue)
    folder.begin("query", 0)
    val (staging, files) = stage(folder, 0)
    DyingFileSystem.dieBefore(step => step.startsWith("rename") && step.contains("/w="))
    intercept[Exception](folder.land(0, "offsets of 0", staging, files))
    DyingFileSystem.live(Int.MaxValue)
    staging.getFileSystem(conf).delete(staging, true)
    assert(condition(opened().landed(0, "offsets of 0")) == "TAILRACE_WINDOWS_FILE_MISSING")
  }

  test("a window's directory that a reader has deleted between two batches is made again") {
    val folder = opened()
    DyingFileSystem.live(Int.MaxValue)
    folder.begin("query", 0)
    val (staging, files) = stage(folder, 0)
    folder.land(0, "offsets of 0", staging, files)
    val window = file("w=19700101T000000Z").toFile
    window.listFiles.foreach(_.delete())
    assert(window.delete())
    val (again, more) = stage(folder, 2)
    folder.land(1, "offsets of 1", again, more)
    assert(names("w=19700101T000000Z").toSeq.nonEmpty)
  }

  test("a staged file of another length isn't landed") {
    val folder = opened()
    DyingFileSystem.live(Int.MaxValue)
    folder.begin("query", 0)
    val (staging, files) = stage(folder, 0)
    val short = new java.io.File(new Path(staging, files.head.path).toUri.getPath).toPath
    Files.write(short, Files.readAllBytes(short).drop(1))
    Files.deleteIfExists(short.resolveSibling(s".${short.getFileName}.crc"))
    assert(condition(folder.land(0, "offsets of 0", staging, files)) == "TAILRACE_STATE_FILE_CORRUPT")
    assert(condition(opened()) == "TAILRACE_STATE_FILE_CORRUPT", "the next start too")
  }
}
