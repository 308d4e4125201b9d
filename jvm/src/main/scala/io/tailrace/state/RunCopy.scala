package io.tailrace.state

import java.io.{EOFException, File, FileInputStream, FileOutputStream, IOException, RandomAccessFile}
import java.nio.file.{Files, NoSuchFileException}
import java.util.concurrent.atomic.AtomicLong
import java.util.concurrent.{CompletableFuture, ExecutionException, Executor}
import java.util.zip.CRC32C

import org.apache.hadoop.fs.{FSDataInputStream, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.checkpoint.{Checksum, DurableFiles}
import io.tailrace.common.{Errors, ProcessPart, TailraceStateException}

/** Copies a run of a checkpoint to a local file, in parts side by side, because one stream of an object store
  * is slow and a partition may have 10 GB:
  *
  * {{{
  *   6-b.run, 80 MiB    0 to 32 | 32 to 64 | 64 to 80    a stream for each part, to its place in the local file
  *   7_<id>.manifest#0  0 to 2
  * }}}
  *
  * The checksum of the run is made of those of its parts. A copy begins in the background, and goes before
  * others as soon as somebody waits for it. One that has failed begins anew for the next who waits.
  *
  * A file that an earlier owner has left is read in the same way, and only checked. If its checksum isn't that
  * of the manifest, it is copied.
  *
  * @param directory of the checkpoint's files
  * @param local     exists
  * @param neededBy  for errors
  * @param holds     what the local file has
  */
private[state] final class RunCopy(
    files: DurableFiles,
    directory: Path,
    run: Run,
    local: File,
    neededBy: String,
    holds: LocalBytes
) extends Logging {
  import RunCopy._

  private val original = new Path(directory, run.file)
  private var attempt = new Attempt(isCheck = holds == LocalBytes.Unchecked)
  private var isGivenUp = false
  if (holds == LocalBytes.Whole) attempt.ended.complete(())

  /** The path of the file in the checkpoint. */
  def path: String = original.toString

  def length: Long = run.length

  /** True if all bytes are in the local file, and were checked. */
  def isDone: Boolean = synchronized(attempt).isDone

  def hasFailed: Boolean = synchronized(attempt).hasFailed

  /** True if it is being copied, or waits for its turn. */
  def isComing: Boolean = synchronized(attempt).isComing

  /** Lets it be copied when no other copies are before it. */
  def begin(): Unit = current.queue(isUrgent = false)

  /** Lets it go before others.
    *
    * @return ends when it is here, or with the error of a run that can't be read or is damaged
    */
  def hurry(): CompletableFuture[Unit] = {
    val now = current
    now.queue(isUrgent = true)
    now.ended
  }

  private def current: Attempt = synchronized {
    if (attempt.hasFailed) attempt = new Attempt(isCheck = false)
    attempt
  }

  /** True if the local file is of an earlier owner, and hasn't been checked yet. */
  def isUnchecked: Boolean = synchronized(attempt.isCheck && !attempt.isDone)

  /** True if the local file has bytes that are of use to a later owner. */
  def hasBytes: Boolean = synchronized(attempt.isDone || attempt.isCheck)

  /** True if the local file has the run's bytes, which are read for that. */
  def isWhole: Boolean =
    try {
      val now = WrittenFile.of(local)
      now.length == run.length && now.crc32c == run.crc32c
    } catch { case _: TailraceStateException => false }

  /** Lets it come again, into another file of the same name: readers may have the former one open. */
  def replace(): Unit = synchronized {
    try Files.deleteIfExists(local.toPath): Unit
    catch { case e: IOException => throw Errors.stateFileUnavailable(local.getPath, "deleted", e) }
    attempt = new Attempt(isCheck = false)
  }

  /** Empties the local file: the run isn't here any more. @return whether it did */
  def empty(): Boolean = synchronized {
    try {
      makeDirectory()
      new FileOutputStream(local).close()
      // Only now: a copy that begins anew writes to the file.
      attempt = new Attempt(isCheck = false)
      true
    } catch {
      case e: IOException =>
        logWarning(s"$local can't be emptied", e)
        false
    }
  }

  /** Somebody may have deleted it, with what was in it. */
  private def makeDirectory(): Unit = Files.createDirectories(local.getParentFile.toPath): Unit

  /** Empties what an earlier owner has left, where there is no room for it. */
  def discard(): Unit = synchronized {
    if (attempt.isCheck && !attempt.isComing && !attempt.ended.isDone) empty(): Unit
  }

  /** Gives it up. @return ends when nothing is written to the local file any more */
  def stop(): CompletableFuture[Unit] = synchronized {
    isGivenUp = true
    attempt
  }.stop()

  /** Copies what an earlier owner has left otherwise than the manifest says. */
  private def copyInstead(check: Attempt, error: Throwable): Boolean = {
    val (isCopied, begun) = synchronized {
      val isFirst = (attempt eq check) && !isGivenUp
      if (isFirst) attempt = new Attempt(isCheck = false, check.ended)
      (attempt ne check, Option.when(isFirst)(attempt))
    }
    begun.foreach { copying =>
      logWarning(s"$local was left by an earlier process, and can't be used; it is copied from $path", error)
      copying.queue(isUrgent = true)
    }
    isCopied
  }

  /** Reads the local file that an earlier owner has left, or the checkpoint's. */
  private final class Attempt(
      val isCheck: Boolean,
      ended: CompletableFuture[Unit] = new CompletableFuture[Unit]
  ) extends RunParts(run, original, (if (isCheck) RunParts.checks else RunParts.downloads).here, ended) {

    override protected def copy(part: Part): Unit = if (isCheck) check(part) else copyFromCheckpoint(part)

    private def check(part: Part): Unit = {
      val in = new RandomAccessFile(local, "r")
      try {
        in.seek(part.from)
        read(part)(in.read(_, 0, _))((_, _) => ())
      } finally in.close()
    }

    private def copyFromCheckpoint(part: Part): Unit = files.stream(original, neededBy) { in =>
      // An error of the local file isn't one of the checkpoint's file.
      def locally[T](body: => T): T =
        try body
        catch { case e: IOException => throw Errors.stateFileUnavailable(local.getPath, "written", e) }
      val out = locally {
        makeDirectory()
        new RandomAccessFile(local, "rw")
      }
      try
        if (skipTo(in, run.offset + part.from)) {
          locally(out.seek(part.from))
          read(part)(in.read(_, 0, _))((bytes, n) => locally(out.write(bytes, 0, n)))
          // Behind an inline run there may be others.
          part.goesOn = !isCutOff && part.isLast && run.offset == 0 && in.read() >= 0
        }
      finally locally(out.close())
    }

    override protected def fail(error: Throwable): Unit =
      if (!(isCheck && copyInstead(this, error))) super.fail(error)
  }
}

/** The content of a run's local file. */
sealed trait LocalBytes

object LocalBytes {

  /** It is empty: the run isn't here. */
  case object None extends LocalBytes

  /** As many bytes as the run, left by an earlier owner of the partition. */
  case object Unchecked extends LocalBytes

  /** The run. */
  case object Whole extends LocalBytes
}

private[state] object RunCopy {

  /** Waits for a copy, and throws the error that it ended with. */
  def await(copy: CompletableFuture[Unit]): Unit =
    try copy.get()
    catch { case e: ExecutionException => throw e.getCause }

  /** @return false if the file ends before `offset` */
  def skipTo(in: FSDataInputStream, offset: Long): Boolean =
    try {
      if (offset > 0) in.seek(offset)
      true
    } catch { case _: EOFException => false }
}

/** Reads all parts of a run once, in background threads that all partitions of an executor share, and checks
  * the whole against the manifest. When it ends, no thread works on a part any more.
  *
  * {{{
  *   queue   a step for each part: the first part that nobody has begun     begun by an idle task or an urgent one
  *   end     all parts read, or one failed, or stopped; and none active     checksum of the parts' checksums
  * }}}
  *
  * @param path    of the run's file in the checkpoint, for errors
  * @param threads take [[RunParts.Step]]s in order
  * @param ended   with the error, if there is one
  */
private[state] abstract class RunParts(
    run: Run,
    path: Path,
    threads: Executor,
    val ended: CompletableFuture[Unit]
) extends Logging {
  import RunParts._

  private val parts = (0L to Math.max(0L, run.length - 1) by PartBytes).map { from =>
    new Part(from, Math.min(PartBytes, run.length - from))
  }
  private var begun = 0
  private var active = 0
  private var isQueued, isUrgentlyQueued = false
  @volatile private var isStopped = false
  @volatile private var failure: Throwable = _

  /** Reads one part by [[read]]. */
  protected def copy(part: Part): Unit

  def isDone: Boolean = ended.isDone && !ended.isCompletedExceptionally
  def hasFailed: Boolean = ended.isCompletedExceptionally
  def isComing: Boolean = synchronized((isQueued || isUrgentlyQueued) && !ended.isDone)

  def queue(isUrgent: Boolean): Unit = {
    val waiting = synchronized {
      val isNew = if (isUrgent) !isUrgentlyQueued else !isQueued
      if (isUrgent) isUrgentlyQueued = true else isQueued = true
      if (isNew) parts.size - begun else 0
    }
    try (0 until waiting).foreach(_ => threads.execute(new Step(isUrgent, () => copyNext())))
    catch {
      // No memory for a thread. Whoever waits for these parts would wait forever.
      case e: Throwable =>
        synchronized { if (failure == null) failure = e }
        endIfOver()
        throw e
    }
  }

  def stop(): CompletableFuture[Unit] = {
    isStopped = true
    endIfOver()
    ended.handle((_, _) => ())
  }

  /** Copies the next part, unless others have begun all of them. */
  private def copyNext(): Unit = take().foreach { part =>
    val error =
      try {
        copy(part)
        null
      } catch { case e: Throwable => e }
    synchronized {
      if (failure == null) failure = error
      active -= 1
    }
    endIfOver()
  }

  private def take(): Option[Part] = synchronized {
    Option.when(failure == null && !isStopped && begun < parts.size) {
      active += 1
      begun += 1
      parts(begun - 1)
    }
  }

  private def endIfOver(): Unit = {
    val isOver = synchronized(active == 0 && (failure != null || isStopped || begun == parts.size))
    if (isOver)
      try {
        if (failure != null) throw failure
        check()
        ended.complete(()): Unit
      } catch { case e: Throwable => fail(e) }
  }

  protected def fail(error: Throwable): Unit =
    // There may be nobody who waits for it.
    if (ended.completeExceptionally(error) && !isStopped)
      logWarning(s"${run.name} could not be copied from the checkpoint; who reads it tries again", error)

  protected def isCutOff: Boolean = isStopped || failure != null

  /** Reads the bytes of a part, and gives them to `write`. */
  protected def read(
      part: Part
  )(from: (Array[Byte], Int) => Int)(write: (Array[Byte], Int) => Unit): Unit = {
    val buffer = new Array[Byte](1 << 16)
    def next(): Int =
      if (isCutOff) -1
      else from(buffer, Math.min(buffer.length.toLong, part.length - part.copied).toInt)
    var n = next()
    while (n > 0) {
      write(buffer, n)
      part.crc.update(buffer, 0, n)
      part.copied += n
      n = next()
    }
  }

  private def check(): Unit = {
    def corrupt(reason: String) = throw Errors.stateFileCorrupt(path.toString, reason)
    val copied = parts.map(_.copied).sum
    if (isStopped && copied < run.length) throw Errors.stateFileUnavailable(path.toString, "read", stopped)
    if (copied != run.length) corrupt(s"its run ${run.name} has $copied bytes instead of ${run.length}")
    if (parts.last.goesOn) corrupt(s"it has more than ${run.length} bytes")
    val crc =
      parts.foldLeft(0)((before, part) => Checksum.combine(before, part.crc.getValue.toInt, part.length))
    if (Integer.toUnsignedLong(crc) != run.crc32c)
      corrupt(s"the checksum of its run ${run.name} doesn't fit the content")
  }

  private def stopped = new IOException("no task needs it any more")

  protected final class Part(val from: Long, val length: Long) {
    val crc = new CRC32C
    @volatile var copied = 0L
    @volatile var goesOn = false
    def isLast: Boolean = from + length == run.length
  }
}

private[state] object RunParts {

  /** A part takes half a second at 70 MB/s. */
  private val PartBytes = 32L << 20

  /** Streams of all partitions of an executor. More would wait for each other's connections, and fail. */
  private val Streams = 64

  private val sequence = new ProcessPart("copied parts")(new AtomicLong)

  /** Streams of the checkpoint: they mostly wait. */
  val downloads: ProcessPart[Executor] =
    new ProcessPart("downloads")(SparkState.inOrder("tailrace-download", Streams))

  /** Checks of local files, by half of the cores: tasks continue meanwhile. */
  val checks: ProcessPart[Executor] = new ProcessPart("checks")(
    SparkState.inOrder("tailrace-check", Math.max(1, Runtime.getRuntime.availableProcessors / 2))
  )

  /** Urgent ones first, and of these the one that was queued first. */
  private final class Step(isUrgent: Boolean, body: () => Unit) extends Runnable with Comparable[Step] {
    private val rank = if (isUrgent) 0 else 1
    private val number = sequence.here.incrementAndGet()

    override def run(): Unit = body()

    override def compareTo(other: Step): Int = {
      val byRank = Integer.compare(rank, other.rank)
      if (byRank != 0) byRank else java.lang.Long.compare(number, other.number)
    }
  }
}

/** A run of a checkpoint on a local disk, of which few pages are read: no copy is made, and those pages alone are
  * checked. RocksDB reads files from their beginning, so a run behind a manifest is copied, by the kernel.
  *
  * {{{
  *   6-b.run                ── hard link, or a symbolic one ──> local file
  *   7_<id>.manifest#0      ── bytes of the run            ──> local file
  * }}}
  */
private[state] final class RunLink(run: Run, original: File, neededBy: String) {
  def path: String = original.getPath

  /** @param local becomes the run, whatever is there */
  def make(local: File): Unit = {
    if (!original.exists) throw Errors.stateFileMissing(path, neededBy)
    val isInline = StateFileNames.isInline(run.name)
    val end = run.offset + run.length
    if (original.length < end || (!isInline && original.length > end))
      throw Errors.stateFileCorrupt(
        path,
        s"its run ${run.name} doesn't end at byte $end of ${original.length}"
      )
    try {
      Files.createDirectories(local.getParentFile.toPath)
      Files.deleteIfExists(local.toPath)
      if (isInline) copy(local) else link(local)
    } catch { case e: IOException => throw Errors.stateFileUnavailable(path, "read", e) }
  }

  private def copy(local: File): Unit = {
    val in = new FileInputStream(original)
    try {
      val out = new FileOutputStream(local)
      try {
        var copied = 0L
        while (copied < run.length) {
          val bytes = in.getChannel.transferTo(run.offset + copied, run.length - copied, out.getChannel)
          if (bytes <= 0)
            throw Errors.stateFileCorrupt(path, s"it has become shorter than ${run.offset + run.length}")
          copied += bytes
        }
      } finally out.close()
    } finally in.close()
  }

  /** A hard link stays when the query deletes the original. */
  private def link(local: File): Unit =
    try Files.createLink(local.toPath, original.toPath): Unit
    catch {
      case e: NoSuchFileException => throw Errors.stateFileMissing(path, neededBy, e)
      case _: IOException | _: UnsupportedOperationException =>
        Files.createSymbolicLink(local.toPath, original.toPath.toAbsolutePath): Unit
    }
}
