package io.tailrace.state

import java.io.File
import java.util

import scala.jdk.CollectionConverters._

import io.tailrace.common.{ProcessPart, TailraceConf}

/** The runs of all partitions on an executor's disks, as far as the checkpoint has them too. Where they have
  * more bytes than they may, the ones that were read longest ago are emptied. They come back when they are
  * read ([[LocalRun]]).
  *
  * {{{
  *   at most 100 MB     R1 60 MB, read at 12:00 | R2 30 MB, read at 12:05
  *   12:10 R3, 40 MB    R2 | R3
  *   12:15 R1 is read   R3 | R1
  * }}}
  *
  * Runs that are being read or copied stay, so there may be more for a while.
  */
private[state] final class LocalDisk {
  import LocalDisk._

  private val runs = new util.LinkedHashMap[Resident, Long](64, 0.75f, true)
  @volatile private var most = Unbounded
  private var total = 0L

  /** Sets the bound. An executor has one: that of the query whose partition it got last. */
  def configure(bytes: Long): Unit = most = bytes

  /** Says that a run is read, or is about to be here. @param bytes of the run */
  // Runs must not call this while they hold their own lock: evict takes it.
  def used(run: Resident, bytes: Long): Unit = if (most < Unbounded) synchronized {
    total += bytes - Option(runs.put(run, bytes)).getOrElse(0L)
    val others = runs.entrySet.iterator
    while (total > most && others.hasNext) {
      val other = others.next()
      if ((other.getKey ne run) && other.getKey.evict()) {
        total -= other.getValue
        others.remove()
      }
    }
  }

  /** Counts a run, if there is room for its bytes beside those that are here. */
  def reserve(run: Resident, bytes: Long): Boolean = synchronized {
    val hasRoom = total + bytes <= most
    if (hasRoom) used(run, bytes)
    hasRoom
  }

  /** Lets runs be copied that are read next, as many as have room if all others go.
    *
    * @param next each of them once
    */
  def prepare(next: Seq[Resident]): Unit = {
    var left = most
    if (!next.forall(_.isHere)) next.foreach { run =>
      left -= run.length
      if (left >= 0) run.beginNow()
    }
  }

  /** A run that isn't here, or not any more. */
  def gone(run: Resident): Unit = synchronized {
    total -= Option(runs.remove(run)).getOrElse(0L)
  }

  /** The bytes of the runs that are in a directory, while there is a bound. */
  def bytesIn(directory: File): Long = synchronized {
    runs.asScala.collect { case (run, bytes) if run.file.getParentFile == directory => bytes }.sum
  }
}

private[state] object LocalDisk {
  private val Unbounded = TailraceConf.LocalRunBytes.default
  private val part = new ProcessPart("local disk")(new LocalDisk)

  /** That of this process. */
  def ofExecutor: LocalDisk = part.here

  /** A run that may be on the disk. */
  trait Resident {
    def file: File

    /** Bytes of the file when it is here; 0 if the checkpoint doesn't have it. */
    private[state] def length: Long
    private[state] def isHere: Boolean

    /** Lets it be copied, with the room of others that were read longer ago. */
    private[state] def beginNow(): Unit

    /** Empties the file, unless it is being read or copied, or is the only one. @return whether it did */
    private[state] def evict(): Boolean
  }
}
