package io.tailrace.checkpoint

import java.io.{File, FileNotFoundException}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Damage, TempDirectory}

final class DurableFileSuite extends AnyFunSuite with TempDirectory {
  // Of Spark's managers the one that keeps Hadoop's checksums of local files.
  private def files = new FileSystemBasedCheckpointFileManager(path, new Configuration)
  private def file = new File(directory, "file")
  private def path = new Path(file.toURI)

  test("what is written is read; damage that the file system finds is named") {
    assert(DurableFile.write(files, path) { out => out.write("content".getBytes); 7 } == 7)
    assert(new String(DurableFile.read(files, path)) == "content")
    Damage.flipMiddle(file)
    val e = intercept[TailraceStateException](DurableFile.read(files, path))
    assert(
      e.getCondition == "TAILRACE_STATE_FILE_CORRUPT" && e.getMessageParameters.get("file") == path.toString
    )
  }

  test("a file that isn't there is its caller's to judge") {
    assertThrows[FileNotFoundException](DurableFile.read(files, path))
  }
}
