package io.tailrace.state

import java.io.IOException
import java.util.concurrent.atomic.AtomicLong
import java.util.concurrent.{CompletableFuture, Executor}
import java.util.zip.CRC32C

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.checkpoint.Checksum
import io.tailrace.common.Errors

/** Reads all parts of a run once, in background threads that all partitions of an executor share, and checks
  * the whole against the manifest. When it ends, no thread works on a part any more.
  *
  * {{{
  *   queue   a step for each part: the least part that nobody has begun     begun by an idle task or an urgent one
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

  /** Of all partitions of an executor. More would wait for each other's connections, and fail. */
  private val Streams = 64

  private val sequence = new AtomicLong

  /** Streams of the checkpoint: they mostly wait. */
  lazy val downloads: Executor = SparkState.inOrder("tailrace-download", Streams)

  /** Of local files, by half of the cores: tasks go on meanwhile. */
  lazy val checks: Executor =
    SparkState.inOrder("tailrace-check", Math.max(1, Runtime.getRuntime.availableProcessors / 2))

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
}
