package io.tailrace.checkpoint

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.checkpoint.BatchFiles.Entry
import io.tailrace.testkit.TempDirectory

final class BatchFilesSuite extends AnyFunSuite with TempDirectory {
  private def root = new File(directory, "log")
  private def batches = new BatchFiles(new Path(root.getPath), new Configuration, "", ".snapshot")
  private def listed = batches.list().sortBy(_.number)

  test("a directory that nobody has written into is empty") {
    assert(batches.list().isEmpty && !root.exists)
  }

  test("only entries of the given suffixes are listed") {
    batches.write(12, ".snapshot")(Array(1))
    Files.createDirectory(new File(root, "7").toPath)
    Seq("7.delta", "x.snapshot", "12.snapshot2", "-1.snapshot", s"${"9" * 20}.snapshot", ".3.snapshot.tmp")
      .foreach(name => Files.createFile(new File(root, name).toPath))
    assert(listed == Seq(Entry(7, ""), Entry(12, ".snapshot")))
  }

  test("a directory of a batch is deleted with its files, other entries stay") {
    batches.files.write(new Path(batches.path(7), "part"))(_.write(1))
    batches.write(7, ".snapshot")(Array(1))
    batches.write(8, ".snapshot")(Array(1))
    batches.delete(batches.list().filter(e => e.number < 8 && e.suffix.isEmpty))
    assert(listed == Seq(Entry(7, ".snapshot"), Entry(8, ".snapshot")))
  }

  test("a place is below the checkpoint, so a checkpoint may be moved") {
    assert(batches.place("7", "part") == "log/7/part")
  }
}
