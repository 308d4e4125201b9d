package io.tailrace.checkpoint

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Damage, TempDirectory}

final class DurableFilesSuite extends AnyFunSuite with TempDirectory {
  // Of Spark's managers the one that keeps Hadoop's checksums of local files.
  private def files = new DurableFiles(new FileSystemBasedCheckpointFileManager(path, new Configuration))
  private def file = new File(directory, "file")
  private def path = new Path(file.toURI)

  private def fails(condition: String)(body: => Any): Assertion = {
    val e = intercept[TailraceStateException](body)
    assert(e.getCondition == condition && e.getMessageParameters.get("file") == path.toString)
  }

  test("a file that is written can be read; damage that the file system finds is named") {
    assert(files.write(path) { out => out.write("content".getBytes); 7 } == 7)
    assert(files.find(path).map(new String(_)).contains("content"))
    assert(files.stream(path, "batch 7")(in => new String(in.readAllBytes())) == "content")
    Damage.flipMiddle(file)
    fails("TAILRACE_STATE_FILE_CORRUPT")(files.find(path))
    fails("TAILRACE_STATE_FILE_CORRUPT")(files.stream(path, "batch 7")(_.readAllBytes()))
  }

  test("a file that is missing is found not to be there, or is an error where it is needed") {
    assert(files.find(path).isEmpty && !files.exists(path))
    fails("TAILRACE_STATE_FILE_MISSING")(files.read(path, neededBy = "batch 7"))
    fails("TAILRACE_STATE_FILE_MISSING")(files.stream(path, neededBy = "batch 7")(_.readAllBytes()))
    val error = intercept[TailraceStateException](files.read(path, neededBy = "batch 7"))
    assert(error.getMessage.contains(s"$path doesn't exist, and batch 7 needs it"))
  }

  test("a directory that is missing has no files") {
    assert(files.names(new Path(path, "none")).isEmpty)
  }

  test("only one of two writers creates a file; a failed write leaves none") {
    intercept[IllegalStateException](files.write(path)(_ => throw new IllegalStateException))
    assert(files.names(path.getParent).isEmpty)
    files.create(path)(_.write(1))
    intercept[FileAlreadyExistsException](files.create(path)(_.write(2)))
    assert(files.find(path).exists(_.sameElements(Array[Byte](1))))
  }
}
