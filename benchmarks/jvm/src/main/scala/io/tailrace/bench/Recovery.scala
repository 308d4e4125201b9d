package io.tailrace.bench

import java.io.{File, InputStream}
import java.net.URI
import java.nio.file.{Files, Path => LocalPath}
import java.util.SplittableRandom

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.SparkSession
import org.apache.spark.unsafe.Platform

import io.tailrace.common.TailraceConf
import io.tailrace.state._

/** How long a micro-batch takes whose partition has come to another executor. The partition's runs are in an object store
  * that gives 70 MB/s a stream, 30 ms after it was opened: `bench/runMain io.tailrace.bench.Recovery 10000 FILE` for 10,000 MB.
  * The runs are those of compactions by 32: a few large ones, some of a 32nd, and those of single batches. Runs of one size
  * are the same bytes, so that the page cache holds what the store reads.
  *
  * {{{
  *   in the background   handed to its task with the manifest | a batch adds rows, commits | a release reads all runs
  *   whole               handed to its task with all runs     | a batch adds rows, commits | a release reads all runs
  *   left here           the same, where an executor on this machine has left all runs
  *   one by one          a stream for the whole of a run, the next run after it: as it was at first
  * }}}
  */
object Recovery {
  private val BytesPerMs = 70000L
  private val OpenMs = 30L
  private val Rounds = 3
  private val BatchRows = 5000
  private val ValueBytes = 200

  /** Seconds from the beginning of the task. */
  private final case class Times(handed: Double, committed: Double, released: Double)

  /** @param arguments megabytes; the file of the result, on the disk for runs; "before" for the time one by one, too */
  def main(arguments: Array[String]): Unit = {
    val bytes = arguments(0).toLong * 1000000
    val file = new File(arguments(1)).getAbsoluteFile
    val directory = Files.createTempDirectory(file.getParentFile.toPath, "recovery")
    val spark = SparkSession
      .builder()
      .master("local[2]")
      .config("spark.ui.enabled", "false")
      .config("spark.local.dir", directory.toString)
      .getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    val runs = write(directory, bytes)
    val lines = Seq(
      f"cores ${Runtime.getRuntime.availableProcessors}, ${runs.size} runs, ${runs.map(_.length).sum / 1e6}%.0f MB, " +
        f"${BytesPerMs / 1000} MB/s a stream, $OpenMs ms to open one; seconds from the beginning of the task",
      "                     handed   a batch is committed   a release has read all runs"
    ) ++ (1 to Rounds).flatMap { _ =>
      Seq("whole" -> (1L << 50), "in the background" -> 0L).map { case (name, most) =>
        // What was written before must not be on its way to the disk.
        assert(new ProcessBuilder("sync").start().waitFor() == 0)
        line(name, recover(directory, most))
      } :+ line("left here", recoverLeft(directory))
    } ++ arguments.lift(2).filter(_ == "before").map { _ =>
      f"one by one         ${oneByOne(directory, runs)}%8.1f"
    }
    spark.stop()
    Files.writeString(file.toPath, lines.mkString("", "\n", "\n"))
    BenchRows.deleteDirectory(directory)
  }

  private def line(name: String, t: Times): String =
    f"$name%-18s ${t.handed}%8.2f ${t.committed}%22.2f ${t.released}%29.2f"

  private def checkpoint(directory: LocalPath): LocalPath = directory.resolve("state/0/0")

  /** The partition's first version, with runs of 0.3, 1/220 and 1/3300 of the bytes. */
  private def write(directory: LocalPath, bytes: Long): Seq[Run] = {
    val files = new CheckpointFiles(new Path(checkpoint(directory).toUri), new Configuration)
    val sizes = Seq(3 -> bytes * 3 / 10, 20 -> bytes / 220, 30 -> bytes / 3300)
    val runs = sizes.zipWithIndex.flatMap { case ((count, size), i) =>
      val local = directory.resolve(s"$i.run").toFile
      val section = writeRun(local, size)
      val first = files
        .upload(WrittenFile.of(local), StateFileNames.run(1))
        .copy(sections = Seq(section), level = 2 - i)
      Files.delete(local.toPath)
      first +: Seq.fill(count - 1) {
        val name = StateFileNames.run(1)
        Files.createLink(checkpoint(directory).resolve(name), checkpoint(directory).resolve(first.name))
        first.copy(name = name)
      }
    }
    files.commit(files.newManifest(1, None), Manifest(1, Long.MinValue, runs), Map.empty)
    runs
  }

  private def writeRun(file: File, bytes: Long): Section = {
    val writer = new RunWriter(file)
    val row = new Array[Byte](RowLayout.length(8, ValueBytes).toInt)
    val base = Platform.BYTE_ARRAY_OFFSET.toLong
    val random = new SplittableRandom(7)
    writer.begin(StoreKind.LeftTimeSorted, 0)
    // Random values can't be compressed.
    (0L until bytes / row.length).foreach { i =>
      RowLayout.writeHeader(row, base, BenchRows.Start + i, i, 8, ValueBytes)
      val value = RowLayout.valueAt(row, base)
      (0 until ValueBytes by 8).foreach(at => Platform.putLong(row, value + at, random.nextLong()))
      writer.append(row, base)
    }
    writer.end()
    writer.finish()
    writer.close()
    writer.sections.head
  }

  /** As in the background, after an executor with the same local directory. The disk is read, not its cache. */
  private def recoverLeft(directory: LocalPath): Times = {
    val conf = new Configuration
    conf.set(TailraceConf.LocalDirectory.key, directory.resolve("left").toString)
    recover(directory, 0L, conf): Unit
    assert(new ProcessBuilder("sync").start().waitFor() == 0)
    // Only root can, on Linux.
    val caches = new File("/proc/sys/vm/drop_caches")
    if (caches.canWrite) Files.writeString(caches.toPath, "1"): Unit
    val times = recover(directory, 0L, conf)
    BenchRows.deleteDirectory(directory.resolve("left"))
    times
  }

  private def recover(
      directory: LocalPath,
      backgroundLoadBytes: Long,
      conf: Configuration = new Configuration
  ): Times = {
    conf.set("fs.slow.impl", classOf[SlowStreams].getName)
    conf.set(TailraceConf.BackgroundLoadBytes.key, backgroundLoadBytes.toString)
    val provider = BenchProvider.create(s"slow://$directory/state", conf)
    val started = System.nanoTime
    def seconds = (System.nanoTime - started) / 1e9
    val store = provider.load(1, None, empty = false)
    val handed = seconds
    val rows = BenchRows.newBuffer()
    BenchRows.append(rows, BatchRows, BatchRows, valueBytes = ValueBytes)
    store.addRun(BenchRows.BucketWidth, StoreKind.LeftTimeSorted -> rows)
    rows.close()
    store.commit()
    val committed = seconds
    val next = provider.load(2, None, empty = false)
    next.sectionsOf(StoreKind.LeftTimeSorted).foreach { live =>
      val cursor = live.cursor()
      cursor.first()
      cursor.close()
    }
    val released = seconds
    next.abort()
    provider.close()
    // It would be the next one's first version.
    checkpoint(directory).toFile.listFiles
      .filter(file => StateFileNames.manifestVersion(file.getName).contains(2))
      .foreach(file => assert(file.delete()))
    Times(handed, committed, released)
  }

  private def oneByOne(directory: LocalPath, runs: Seq[Run]): Double = {
    val started = System.nanoTime
    runs.foreach { run =>
      val in = new Slow(
        FileSystem
          .getLocal(new Configuration)
          .getRaw
          .open(new Path(checkpoint(directory).resolve(run.name).toUri))
      )
      val local = directory.resolve("copy")
      Files.copy(in, local)
      in.close()
      Files.delete(local)
    }
    (System.nanoTime - started) / 1e9
  }

  /** The bytes of an object, as slow as a stream of the store. */
  private[bench] final class Slow(in: FSDataInputStream)
      extends InputStream
      with Seekable
      with PositionedReadable {
    private var begun = 0L
    private var sent = 0L

    override def read(): Int = {
      val one = new Array[Byte](1)
      if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
    }

    override def read(into: Array[Byte], offset: Int, most: Int): Int = {
      if (begun == 0) begun = System.nanoTime() + OpenMs * 1000000
      val n = in.read(into, offset, most)
      sent += Math.max(0, n)
      val ahead = begun + sent * 1000000 / BytesPerMs - System.nanoTime()
      if (ahead > 1000000) Thread.sleep(ahead / 1000000)
      n
    }

    override def close(): Unit = in.close()
    override def seek(to: Long): Unit = in.seek(to)
    override def getPos: Long = in.getPos
    override def seekToNewSource(position: Long): Boolean = false
    override def read(position: Long, into: Array[Byte], offset: Int, n: Int): Int =
      throw new UnsupportedOperationException
    override def readFully(position: Long, into: Array[Byte], offset: Int, n: Int): Unit =
      throw new UnsupportedOperationException
    override def readFully(position: Long, into: Array[Byte]): Unit = throw new UnsupportedOperationException
  }
}

/** Files of the local disk behind streams of an object store. */
final class SlowStreams extends RawLocalFileSystem {
  override def getScheme: String = "slow"
  override def getUri: URI = URI.create("slow:///")
  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    new FSDataInputStream(new Recovery.Slow(super.open(path, bufferSize)))
}
