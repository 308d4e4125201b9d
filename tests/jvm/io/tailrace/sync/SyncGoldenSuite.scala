package io.tailrace.sync

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import io.tailrace.testkit.{Checkpoint, SparkSuite, SyncGolden}

/** A checkpoint of a synced join whose progress has format 1 is gone on from: two of its right partitions had one name, and the
  * left rows without a partition the name of another one.
  */
final class SyncGoldenSuite extends SparkSuite {
  private val golden = new File("tests/jvm/resources/golden-sync/format-1")

  test("format 1 of a synced join's progress") {
    withDirectory { d =>
      val checkpoint = new File(d, "checkpoint")
      Checkpoint.copy(new File(golden, "checkpoint"), checkpoint)
      val before = Files.readAllLines(new File(golden, "out.txt").toPath).asScala.toSeq
      assert(before.size == 30)
      val query = new SyncGolden
      query.early()
      query.late()
      val after = query.run(checkpoint)
      assert((before ++ after).sorted == (0 until 40).map(i => s"[k$i,$i,$i]").sorted)
    }
  }
}
