package io.tailrace.watermark

import java.io.File
import java.nio.file.Files
import java.nio.file.StandardCopyOption.REPLACE_EXISTING
import java.util.HexFormat

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{SparkWatermark, TailraceStateException}
import io.tailrace.testkit.TempDirectory

final class ProgressLogSuite extends AnyFunSuite with TempDirectory {
  private def log: ProgressLog = log(beginsAnew = false)
  private def log(beginsAnew: Boolean): ProgressLog =
    new ProgressLog(new Path(directory.toURI), new Configuration, beginsAnew)

  private def table(hosts: (String, Long)*): HostTable = {
    val made = new HostTable
    hosts.foreach { case (name, time) => made.raise(made.add(name), time) }
    made
  }

  private def contentOf(of: HostTable): Map[String, (Long, Long)] =
    (0 until of.size).map(h => of.name(h) -> (of.time(h) -> of.future(h))).toMap

  private def state(low: Long): ProgressFile =
    ProgressFile(-1, low, low - 1, Completeness.Whole, Some("0011223344556677"), 3)

  private def loaded(batch: Long): (Option[ProgressFile], Map[String, (Long, Long)]) = {
    val into = new HostTable
    val file = log.load(batch, into)
    (file, contentOf(into))
  }

  private def refused(condition: String)(body: => Any): Unit =
    assert(intercept[TailraceStateException](body).getCondition == condition)

  test("a source begins without hosts in the first batch, later only if the user says so") {
    assert(loaded(0) == (None, Map.empty))
    refused("TAILRACE_WATERMARK_PROGRESS_MISSING")(loaded(7))
    assert(log(beginsAnew = true).load(7, new HostTable).isEmpty)
  }

  test(
    "a source without one of its files begins anew if the user says so, and goes on from its new files"
  ) {
    log.write(0, None, state(1), table("a" -> 1), Array(0), 0)
    refused("TAILRACE_WATERMARK_PROGRESS_MISSING")(loaded(2))
    val anew = log(beginsAnew = true)
    assert(anew.load(2, new HostTable).isEmpty)
    anew.write(2, None, state(1), table("b" -> 5), Array(0), 0)
    assert(loaded(3)._2 == Map("b" -> (5L, 0L)))
  }

  test("a source that may begin anew is refused if one of its files is damaged") {
    log.write(0, None, state(1), table("a" -> 1), Array(0), 0)
    val file = new File(directory, "0.snapshot").toPath
    val bytes = Files.readAllBytes(file)
    Files.write(file, bytes.take(bytes.length / 2))
    refused("TAILRACE_STATE_FILE_CORRUPT")(log(beginsAnew = true).load(1, new HostTable))
  }

  test("the file of another batch is refused") {
    val writer = log
    writer.write(0, None, state(1), table("a" -> 1), Array(0), 0)
    writer.write(1, None, state(2), table("a" -> 2), Array(0), 0)
    Files.copy(
      new File(directory, "0.snapshot").toPath,
      new File(directory, "1.snapshot").toPath,
      REPLACE_EXISTING
    )
    refused("TAILRACE_STATE_FILE_CORRUPT")(loaded(2))
  }

  test("any sequence of batches is read back, from whichever batch the query goes on") {
    (1 to 5).foreach { seed =>
      emptyDirectory()
      val random = new Random(seed)
      var writer = log
      val hosts = new HostTable
      var previous: Option[Long] = None
      var history = Map.empty[Long, Map[String, (Long, Long)]]
      (0L until 70L).foreach { batch =>
        val moved = (0 until random.nextInt(if (random.nextInt(10) == 0) 40 else 4))
          .map { _ =>
            val host = hosts.add(s"h${random.nextInt(40)}")
            hosts.raise(host, batch * 10 + random.nextInt(10))
            if (random.nextInt(5) == 0) hosts.addFuture(host, 1)
            host
          }
          .distinct
          .toArray
        if (random.nextInt(8) == 0) {
          // A new run has nothing but the files.
          writer = log
          val again = new HostTable
          writer.load(batch, again)
          assert(batch == 0 || contentOf(again) == history(batch - 1))
        }
        writer.write(batch, previous, state(batch), hosts, moved, retainFrom = batch - 3)
        previous = Some(batch)
        history += batch -> contentOf(hosts)
      }
      (70L to 67L by -1).foreach { batch =>
        val (file, found) = loaded(batch)
        assert(found == history(batch - 1), s"seed $seed batch $batch")
        assert(file.get.low == batch - 1)
      }
    }
  }

  test("files that no batch can go on from are deleted") {
    val writer = log
    val hosts = table((0 until 10).map(i => s"h$i" -> 1L): _*)
    (0L until 100L).foreach(b =>
      writer.write(b, Some(b - 1).filter(_ >= 0), state(b), hosts, Array(0), retainFrom = b - 2)
    )
    assert(directory.list.length < 50, directory.list.toSeq)
    assert(directory.list.exists(_.endsWith(".delta")) && directory.list.exists(_.endsWith(".snapshot")))
    assert(loaded(100)._2.size == 10)
  }

  test("a batch that runs again ignores the file of its first attempt") {
    val writer = log
    writer.write(0, None, state(1), table("a" -> 1, "b" -> 1, "c" -> 1), Array(0, 1, 2), 0)
    writer.write(1, Some(0), state(5), table("a" -> 5, "b" -> 1, "c" -> 1), Array(0), 0)
    assert(loaded(1)._2 == Map("a" -> (1, 0), "b" -> (1, 0), "c" -> (1, 0)))
    assert(!new File(directory, "1.delta").exists)
  }

  test("a file that is gone, cut or changed is an error that names it, not an empty table") {
    val writer = log
    writer.write(0, None, state(1), table("a" -> 1, "b" -> 1, "c" -> 1), Array(0), 0)
    writer.write(1, Some(0), state(2), table("a" -> 2, "b" -> 1, "c" -> 1), Array(0), 0)
    val snapshot = new File(directory, "0.snapshot").toPath
    val bytes = Files.readAllBytes(snapshot)
    bytes.indices.by(3).foreach { i =>
      Files.write(snapshot, bytes.updated(i, (bytes(i) ^ 0x10).toByte))
      refused(if (i >= 4 && i < 8) "TAILRACE_STATE_FORMAT_UNSUPPORTED" else "TAILRACE_STATE_FILE_CORRUPT")(
        loaded(2)
      )
      Files.write(snapshot, bytes.take(i))
      refused("TAILRACE_STATE_FILE_CORRUPT")(loaded(2))
    }
    Files.delete(snapshot)
    refused("TAILRACE_WATERMARK_PROGRESS_MISSING")(loaded(2))
    Files.write(snapshot, bytes)
    Files.delete(new File(directory, "1.delta").toPath)
    refused("TAILRACE_WATERMARK_PROGRESS_MISSING")(loaded(2))
  }

  private val hosts = {
    val made = table("h1" -> 1763700000000000L)
    made.addFuture(0, 2)
    made
  }
  private val share = Completeness.parse("0.999").get
  private val entry = "00000001" + "00000002" + "6831" + "0006441367fd8800" + "0000000000000002"
  private val start = "0000000000000006" + "0000000000000005" + "8000000000000000" + "0ddd2935029d8000"

  test("format 3 has the bytes of its description") {
    val file = ProgressFile(6, 5, SparkWatermark.Never, share, Some("e3b0c44298fc1c14"), 7)
    val bytes = ProgressFile.encode("w/7", file, hosts, Array(0))
    val expected = "54524850" + "00000003" + "00000003" + "772f37" + start +
      "e3b0c44298fc1c14" + "0000000000000007" + entry
    assert(HexFormat.of.formatHex(bytes.dropRight(4)) == expected)
    val into = new HostTable
    assert(ProgressFile.decode(bytes, "F", "w/7", into) == file)
    assert(contentOf(into) == contentOf(hosts))
  }

  test("format 1, without a place, and format 2, without a roster, are read") {
    val known = ProgressFile(6, 5, SparkWatermark.Never, share, None, 0)
    Seq(
      "54524850" + "00000001" + start + entry + "538a9547",
      "54524850" + "00000002" + "00000003" + "772f37" + start + entry + "70686979"
    ).foreach { hex =>
      val into = new HostTable
      assert(ProgressFile.decode(HexFormat.of.parseHex(hex), "F", "w/7", into) == known)
      assert(contentOf(into) == contentOf(hosts))
    }
  }
}
