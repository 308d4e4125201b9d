package io.tailrace.bench

import java.net.URI
import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileUtil, Path, RawLocalFileSystem}
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.Policy
import io.tailrace.replay._
import io.tailrace.watermark._
import io.tailrace.windows._

/** The driver alone: what tasks send it, as if a cluster had sent it, into the code that takes it. Prints the seconds and
  * the heap that is kept, of the last of some rounds: `bench/runMain io.tailrace.bench.DriverFanIn 5`.
  *
  * {{{
  *   hosts    5,000 tasks, each has seen 10,000 hosts
  *   marks    5,000 tasks, each has moved the marks of 160 origins; the batch's file is written
  *   landing  2,000 files of a batch, each call of the file system takes 30 ms
  * }}}
  */
object DriverFanIn {
  private val Tasks = 5000
  private var rounds = 1

  /** @param arguments how many rounds */
  def main(arguments: Array[String]): Unit = {
    rounds = arguments(0).toInt
    println(f"${"cores"}%-44s${Runtime.getRuntime.availableProcessors}")
    println(f"${"what"}%-44s${"s"}%8s${"MB kept"}%10s")
    measure("hosts, by number")(hosts(numbered = true))
    measure("hosts, by name: a query's first batch")(hosts(numbered = false))
    measure("marks of 800,000 origins")(marks())
    measure("landing of 2,000 files")(landing())
  }

  /** @param round gives nanoseconds, and what is kept at its end */
  private def measure(what: String)(round: => (Long, AnyRef)): Unit = {
    val results = (1 to rounds).map { _ =>
      val before = used()
      val (nanos, kept) = round
      val bytes = used() - before
      assert(kept != null)
      (nanos, bytes)
    }
    val (nanos, bytes) = results.last
    println(f"$what%-44s${nanos / 1e9}%8.3f${bytes / 1e6}%10.1f")
  }

  private def used(): Long = {
    (1 to 3).foreach(_ => System.gc())
    Runtime.getRuntime.totalMemory - Runtime.getRuntime.freeMemory
  }

  private def hosts(numbered: Boolean): (Long, AnyRef) = {
    val names = Array.tabulate(10000)(n => f"host-$n%06d.rack-${n % 40}%02d.example.net")
    val numbers = Option.when(numbered)(new HostNumbers(names))
    val driver = new HostAccumulator(numbers)
    val utf8 = names.map(UTF8String.fromString)
    // A few different ones are enough: the driver merges each as it comes.
    val sent = (0 until 8).map { task =>
      val maxima = new HostMaxima
      utf8.indices.foreach(n => maxima.see(utf8(n), 1000000L * (n * 7 % 1000 + task)))
      maxima.toBytes(numbers)
    }
    var nanos = 0L
    (0 until Tasks).foreach { task =>
      val arrived = driver.copyAndReset()
      arrived.add(task -> TaskProgress(1000, sent(task % sent.size).clone()))
      val start = System.nanoTime()
      driver.merge(arrived)
      nanos += System.nanoTime() - start
    }
    val start = System.nanoTime()
    assert(driver.value.table.size == names.length)
    (nanos + System.nanoTime() - start, driver)
  }

  private def marks(): (Long, AnyRef) = {
    val directory = Files.createTempDirectory("marks")
    val settings = ReplaySettings("replays")
    val log = new MarkLog(new Path(directory.toUri), new Configuration, settings)
    val before = new MarkTable(settings.disorder)
    (0 until Tasks * 160).foreach(i => before.add(i / 8L, i % 8, 100))
    var after: MarkTable = null
    val driver = new BatchMarks(
      settings,
      new ReplayNotices,
      Tasks,
      before,
      Some { (table, sent) =>
        log.write(7, sent)
        after = table
      }
    )
    var nanos = 0L
    def ask(question: Array[Byte]) = {
      val start = System.nanoTime()
      val answer = driver.answer(question)
      nanos += System.nanoTime() - start
      answer
    }
    (0 until Tasks).foreach { task =>
      val moved = new MarkTable(settings.disorder)
      (task * 160 until (task + 1) * 160).foreach { i =>
        moved.setHome(moved.add(i / 8L, i % 8, 200), moved.homes.of(s"topic-2/$task"))
      }
      new BatchMarks.Report(task, task.toLong, settings.disorder, ask).send(moved, 0)
    }
    assert(after.size == before.size && after.mark(5) == 200)
    delete(directory)
    (nanos, Seq(before, after))
  }

  private def landing(): (Long, AnyRef) = {
    val conf = new Configuration
    conf.set("fs.slow.impl", classOf[SlowFileSystem].getName)
    val directory = Files.createTempDirectory("landing")
    val root = new Path(s"slow://$directory/out")
    val source = ProgressSettings("s", Completeness.Whole, 0, None, None, None, Policy.Clamp, None)
    val settings =
      LandingSettings(root.toString, Windows(3600L * 1000 * 1000, 0), "hour", 10, None, Seq(source), None)
    SlowFileSystem.millis = 0
    val folder = WrittenFolders.open(root, settings, conf, () => false)
    folder.begin("query", 0)
    val staging = folder.newStaging(0)
    val files = (0 until 2000).map { i =>
      val file = LocalPath.of(new Path(staging, s"hour=0/part-$i").toUri.getPath)
      Files.createDirectories(file.getParent)
      Files.write(file, Array[Byte](1))
      StagedFile(s"hour=0/part-$i", Some(0L), s"part-$i", 1, 1)
    }
    SlowFileSystem.millis = 30
    val start = System.nanoTime()
    folder.land(0, "offsets", staging, files)
    val nanos = System.nanoTime() - start
    delete(directory)
    (nanos, folder)
  }

  private def delete(directory: LocalPath): Unit = FileUtil.fullyDelete(directory.toFile): Unit
}

/** Local files whose calls take their time. */
final class SlowFileSystem extends RawLocalFileSystem {
  private def wait[T](call: => T): T = {
    Thread.sleep(SlowFileSystem.millis)
    call
  }
  override def getScheme: String = "slow"
  override def getUri: URI = URI.create("slow:///")
  override def rename(from: Path, to: Path): Boolean = wait(super.rename(from, to))
  override def getFileStatus(path: Path): FileStatus = wait(super.getFileStatus(path))
  override def delete(path: Path, recursive: Boolean): Boolean = wait(super.delete(path, recursive))
}

object SlowFileSystem {
  @volatile var millis: Long = 0
}
