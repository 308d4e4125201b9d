package io.tailrace.state

import java.io.{EOFException, File, IOException, RandomAccessFile}
import java.util.concurrent.atomic.AtomicLong
import java.util.concurrent.{CompletableFuture, ExecutionException, Executor}
import java.util.zip.CRC32C

import org.apache.hadoop.fs.{FSDataInputStream, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.checkpoint.{Checksum, DurableFiles}
import io.tailrace.common.Errors

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
  * @param directory of the checkpoint's files
  * @param local     exists, and is empty if the run isn't here
  * @param neededBy  for errors
  * @param isHere    whether the local file has the run already
  */
private[state] final class RunCopy(
    files: DurableFiles,
    directory: Path,
    run: Run,
    local: File,
    neededBy: String,
    isHere: Boolean
) extends Logging {
  import RunCopy._

  private val path = new Path(directory, run.file)
  private var attempt = new Attempt
  if (isHere) attempt.ended.complete(())

  def length: Long = run.length

  /** Whether all bytes are in the local file, and were checked. */
  def isDone: Boolean = synchronized(attempt).isDone

  def hasFailed: Boolean = synchronized(attempt).hasFailed

  /** Whether it is being copied, or waits for its turn. */
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
    if (attempt.hasFailed) attempt = new Attempt
    attempt
  }

  /** To be called when the local file has been emptied: the run isn't here any more. */
  def forget(): Unit = synchronized { attempt = new Attempt }

  /** Gives it up. @return ends when nothing is written to the local file any more */
  def stop(): CompletableFuture[Unit] = synchronized(attempt).stop()

  /** One copy of all parts. When it ends, no thread writes to the local file any more. */
  private final class Attempt {
    private val parts = (0L to Math.max(0L, run.length - 1) by PartBytes).map { from =>
      new Part(from, Math.min(PartBytes, run.length - from))
    }
    private var begun = 0
    private var active = 0
    private var isQueued, isUrgentlyQueued = false
    @volatile private var isStopped = false
    @volatile private var failure: Throwable = _
    val ended = new CompletableFuture[Unit]

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
          fail(e)
          throw e
      }
    }

    private def fail(error: Throwable): Unit = {
      synchronized { if (failure == null) failure = error }
      endIfOver()
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
          check(parts, isStopped)
          ended.complete(()): Unit
        } catch {
          case e: Throwable =>
            // There may be nobody who waits for it.
            if (ended.completeExceptionally(e) && !isStopped)
              logWarning(s"${run.name} could not be copied from the checkpoint; who reads it tries again", e)
        }
    }

    private def isGivenUp: Boolean = isStopped || failure != null

    private def copy(part: Part): Unit = files.stream(path, neededBy) { in =>
      // An error of the local file isn't one of the checkpoint's file.
      def locally[T](body: => T): T =
        try body
        catch { case e: IOException => throw Errors.stateFileUnavailable(local.getPath, "written", e) }
      val out = locally(new RandomAccessFile(local, "rw"))
      try
        if (skipTo(in, run.offset + part.from)) {
          locally(out.seek(part.from))
          val buffer = new Array[Byte](1 << 16)
          def next(): Int =
            if (isGivenUp) -1
            else in.read(buffer, 0, Math.min(buffer.length.toLong, part.length - part.copied).toInt)
          var n = next()
          while (n > 0) {
            locally(out.write(buffer, 0, n))
            part.crc.update(buffer, 0, n)
            part.copied += n
            n = next()
          }
          // Behind an inline run there may be others.
          part.goesOn = !isGivenUp && part.isLast && run.offset == 0 && in.read() >= 0
        }
      finally locally(out.close())
    }
  }

  private def check(parts: Seq[Part], isStopped: Boolean): Unit = {
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

  private final class Part(val from: Long, val length: Long) {
    val crc = new CRC32C
    @volatile var copied = 0L
    @volatile var goesOn = false
    def isLast: Boolean = from + length == run.length
  }
}

private[state] object RunCopy {

  /** A part takes half a second at 70 MB/s. */
  private val PartBytes = 32L << 20

  /** Of all partitions of an executor. More would wait for each other's connections, and fail. */
  private val Streams = 64

  private val sequence = new AtomicLong

  private lazy val threads: Executor = SparkState.inOrder("tailrace-download", Streams)

  /** Urgent ones first, and of these the one that was queued first. */
  private final class Step(isUrgent: Boolean, body: () => Unit) extends Runnable with Comparable[Step] {
    private val rank = if (isUrgent) 0 else 1
    private val number = sequence.incrementAndGet()

    override def run(): Unit = body()

    override def compareTo(other: Step): Int = {
      val byRank = Integer.compare(rank, other.rank)
      if (byRank != 0) byRank else java.lang.Long.compare(number, other.number)
    }
  }

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
