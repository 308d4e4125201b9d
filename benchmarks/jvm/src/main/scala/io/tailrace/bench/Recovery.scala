package io.tailrace.bench

import java.io.{EOFException, File, InputStream}
import java.net.URI
import java.nio.file.Files
import java.util.zip.CRC32C

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

import io.tailrace.checkpoint.Checksum
import io.tailrace.state.{CheckpointFiles, Run}

/** How long a partition takes to come to another executor: its runs are copied from an object store that gives 70 MB/s a
  * stream, 30 ms after it was opened, to the local disk: `bench/runMain io.tailrace.bench.Recovery 10000 FILE` for 10,000 MB.
  * The content is zeros. The runs are those of compactions by 32: a few large ones, some of a 32nd, and those of single batches.
  *
  * {{{
  *   one by one     a stream for the whole of a run, the next run after it: as it was before
  *   side by side   RunDownload
  * }}}
  */
object Recovery {
  private val BytesPerMs = 70000L
  private val OpenMs = 30L

  /** @param arguments megabytes; the file of the result, on the disk that the runs are copied to; "before" for the time of the runs one by one, too */
  def main(arguments: Array[String]): Unit = {
    val bytes = arguments(0).toLong * 1000000
    val lengths = Seq.fill(3)(bytes * 3 / 10) ++ Seq.fill(20)(bytes / 220) ++ Seq.fill(30)(bytes / 3300)
    val runs = lengths.zipWithIndex.map { case (length, i) =>
      Run(s"1-$i.run", length, crcOfZeros(length), Nil)
    }
    this.lengths = runs.map(run => run.name -> run.length).toMap
    val conf = new Configuration
    conf.set("fs.zeros.impl", classOf[ZerosFileSystem].getName)
    val files = new CheckpointFiles(new Path("zeros:///checkpoint/state/0/0"), conf)
    val disk = new File(arguments(1)).getAbsoluteFile.getParentFile
    val together = seconds(disk, runs)(files.download(_, 1))
    val before =
      if (arguments.lift(2).contains("before")) Some(seconds(disk, runs)(_.foreach(oneByOne))) else None
    val lines = Seq(
      f"cores ${Runtime.getRuntime.availableProcessors}, ${runs.size} runs, ${lengths.sum / 1e6}%.0f MB, " +
        f"${BytesPerMs / 1000} MB/s a stream, $OpenMs ms to open one",
      f"side by side  $together%8.1f s"
    ) ++ before.map(s => f"one by one    $s%8.1f s")
    Files.writeString(new File(arguments(1)).toPath, lines.mkString("", "\n", "\n")): Unit
  }

  private def seconds(disk: File, runs: Seq[Run])(copy: Seq[(Run, File)] => Unit): Double = {
    val directory = Files.createTempDirectory(disk.toPath, "recovery").toFile
    val locals = runs.map(run => new File(directory, run.name))
    locals.foreach(file => assert(file.createNewFile()))
    val start = System.nanoTime()
    copy(runs.zip(locals))
    val taken = (System.nanoTime() - start) / 1e9
    assert(locals.map(_.length) == runs.map(_.length))
    assert(FileUtil.fullyDelete(directory))
    taken
  }

  private def oneByOne(copied: (Run, File)): Unit = {
    val (run, local) = copied
    val in = new Zeros(run.length)
    val out = Files.newOutputStream(local.toPath)
    val (buffer, crc) = (new Array[Byte](1 << 16), new CRC32C)
    Iterator.continually(in.read(buffer, 0, buffer.length)).takeWhile(_ >= 0).foreach { n =>
      out.write(buffer, 0, n)
      crc.update(buffer, 0, n)
    }
    out.close()
    assert(crc.getValue == run.crc32c)
  }

  private def crcOfZeros(length: Long): Long = {
    val byte = Checksum.of(new Array[Byte](1), 1)
    val (crc, _) = length.toBinaryString.foldLeft((0, 0L)) { case ((crc, n), bit) =>
      val twice = Checksum.combine(crc, crc, n)
      if (bit == '1') (Checksum.combine(twice, byte, 1), 2 * n + 1) else (twice, 2 * n)
    }
    Integer.toUnsignedLong(crc)
  }

  /** The bytes of an object, as slow as a stream of the store. */
  private[bench] final class Zeros(length: Long) extends InputStream with Seekable with PositionedReadable {
    private var at = 0L
    private var begun = 0L
    private var sent = 0L

    override def read(): Int = {
      val one = new Array[Byte](1)
      if (read(one, 0, 1) < 0) -1 else 0
    }

    override def read(into: Array[Byte], offset: Int, most: Int): Int =
      if (at >= length) -1
      else {
        if (begun == 0) begun = System.nanoTime() + OpenMs * 1000000
        val n = Math.min(most.toLong, length - at).toInt
        java.util.Arrays.fill(into, offset, offset + n, 0.toByte)
        at += n
        sent += n
        val ahead = begun + sent * 1000000 / BytesPerMs - System.nanoTime()
        if (ahead > 1000000) Thread.sleep(ahead / 1000000)
        n
      }

    override def seek(to: Long): Unit = if (to > length) throw new EOFException else at = to
    override def getPos: Long = at
    override def seekToNewSource(to: Long): Boolean = false
    override def read(from: Long, into: Array[Byte], offset: Int, n: Int): Int =
      throw new UnsupportedOperationException
    override def readFully(from: Long, into: Array[Byte], offset: Int, n: Int): Unit =
      throw new UnsupportedOperationException
    override def readFully(from: Long, into: Array[Byte]): Unit = throw new UnsupportedOperationException
  }

  /** How long the object of a name is. */
  @volatile private[bench] var lengths: Map[String, Long] = Map.empty
}

/** Objects of zeros. */
final class ZerosFileSystem extends RawLocalFileSystem {
  override def getScheme: String = "zeros"
  override def getUri: URI = URI.create("zeros:///")
  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    new FSDataInputStream(new Recovery.Zeros(Recovery.lengths(path.getName)))
}
