package io.tailrace.sync

import java.io.File
import java.nio.file.{Files, StandardCopyOption}
import java.util.HexFormat

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.checkpoint.Checksum
import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Slow, TempDirectory}

final class SyncLogSuite extends AnyFunSuite with TempDirectory {
  private def folder: File = new File(directory, "join")
  private def log: SyncLog = new SyncLog(new Path(folder.getPath), new Configuration)

  private def file(release: Long, filteredMs: Long = 6): SyncFile = SyncFile(
    SyncTimes(release, release - 5),
    SideState(release + 1, Seq(PartitionState("clicks-0", release + 2, 0, excluded = false))),
    SideState(
      release + 3,
      Seq(
        PartitionState("views-0", SyncTimes.Unknown, 7, excluded = false, filteredMs = filteredMs),
        PartitionState("", 8, 9, excluded = true)
      )
    )
  )

  private def refused(condition: String)(body: => Any): Unit =
    assert(intercept[TailraceStateException](body).getCondition == condition)

  test("a join that is new in the query begins without progress") {
    assert(log.load(0).isEmpty)
    assert(log.load(7).isEmpty)
  }

  test("each batch begins with the progress after the batch before it, in any start") {
    val writer = log
    (0L until 20L).foreach { batch =>
      assert(log.load(batch) == Option.when(batch > 0)(file(batch - 1)))
      writer.write(batch, file(batch), batch - 3)
    }
    // The query may go on from any of the batches that are kept.
    (17L to 20L).foreach(batch => assert(log.load(batch).contains(file(batch - 1))))
  }

  test("a batch that runs again replaces its file") {
    log.write(0, file(1), 0)
    log.write(1, file(2), 0)
    assert(log.load(1).contains(file(1)))
    log.write(1, file(3), 0)
    assert(log.load(2).contains(file(3)))
  }

  test("files that no batch needs are deleted, also those of earlier starts") {
    (0L until 50L).foreach(batch => log.write(batch, file(batch), batch - 2))
    val writer = log
    (50L until 100L).foreach(batch => writer.write(batch, file(batch), batch - 2))
    assert(folder.list.toSet == (96 to 99).map(b => s"$b.progress").toSet)
  }

  test("a missing, cut or changed file is an error that names it; the join doesn't begin anew", Slow) {
    log.write(0, file(1), 0)
    log.write(1, file(2), 0)
    val path = new File(folder, "1.progress").toPath
    val bytes = Files.readAllBytes(path)
    bytes.indices.foreach { i =>
      Files.write(path, bytes.updated(i, (bytes(i) ^ 0x10).toByte))
      refused(if (i >= 4 && i < 8) "TAILRACE_STATE_FORMAT_UNSUPPORTED" else "TAILRACE_STATE_FILE_CORRUPT")(
        log.load(2)
      )
      Files.write(path, bytes.take(i))
      refused("TAILRACE_STATE_FILE_CORRUPT")(log.load(2))
    }
    Files.delete(path)
    refused("TAILRACE_STATE_FILE_MISSING")(log.load(2))
  }

  test("a file of another batch, or of another join, is an error that names both places") {
    (0L to 2L).foreach(batch => log.write(batch, file(batch), 0))
    val (first, second) = (new File(folder, "1.progress").toPath, new File(folder, "2.progress").toPath)
    Files.copy(first, second, StandardCopyOption.REPLACE_EXISTING)
    val error = intercept[TailraceStateException](log.load(3))
    assert(error.getCondition == "TAILRACE_STATE_FILE_CORRUPT")
    assert(error.getMessage.contains("it belongs to 'join/1', not to 'join/2'"))
    Files.createDirectories(new File(directory, "other").toPath)
    Files.copy(first, new File(directory, "other/1.progress").toPath)
    val other = new SyncLog(new Path(new File(directory, "other").getAbsolutePath), new Configuration)
    refused("TAILRACE_STATE_FILE_CORRUPT")(other.load(2))
  }

  /** @param format   and what follows it, up to the times
    * @param notSilent how that is written
    * @param filtered  for how long, of each partition; or nothing
    */
  private def bytes(format: String, notSilent: String, filtered: String*): String = {
    val ends = filtered ++ Seq.fill(3 - filtered.size)("")
    "54525350" + format + "0000000000001000" + "0000000000000ffb" +
      "0000000000001001" + "00000001" +
      "00000008" + "636c69636b732d30" + "0000000000001002" + notSilent + "00" + ends.head +
      "0000000000001003" + "00000002" +
      "00000007" + "76696577732d30" + "8000000000000000" + "0000000000000007" + "00" + ends(1) +
      "00000000" + "0000000000000008" + "0000000000000009" + "01" + ends(2)
  }
  private val zero = "0000000000000000"

  private def read(hex: String): SyncFile = {
    val bytes = HexFormat.of.parseHex(hex)
    val check = java.nio.ByteBuffer.allocate(4).putInt(Checksum.of(bytes, bytes.length)).array
    SyncFile.decode(bytes ++ check, "file", "j/1")
  }

  test("files have the bytes of format 3") {
    val written = SyncFile.encode(file(0x1000), "j/1")
    assert(
      HexFormat.of.formatHex(written.dropRight(4)) == bytes(
        "00000003" + "00000003" + "6a2f31",
        zero,
        zero,
        "0000000000000006",
        zero
      )
    )
    assert(SyncFile.decode(written, "file", "j/1") == file(0x1000))
    val former = file(5)
    val marked =
      former.copy(left = former.left.copy(partitions = former.left.partitions.map(_.copy(isFormer = true))))
    assert(SyncFile.decode(SyncFile.encode(marked, "j/1"), "file", "j/1") == marked)
  }

  test("files of format 2 are read, without the time of filtered records") {
    assert(read(bytes("00000002" + "00000003" + "6a2f31", zero)) == file(0x1000, filteredMs = 0))
  }

  test("files of format 1 are read: names may have changed, and a partition that wasn't silent has -1") {
    def former(side: SideState) = side.copy(partitions = side.partitions.map(_.copy(isFormer = true)))
    val now = file(0x1000, filteredMs = 0)
    assert(
      read(bytes("00000001", "ffffffffffffffff")) == now.copy(
        left = former(now.left),
        right = former(now.right)
      )
    )
  }
}
