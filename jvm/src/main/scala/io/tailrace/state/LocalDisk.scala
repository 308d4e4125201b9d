package io.tailrace.state

import java.util

import scala.jdk.CollectionConverters._

import io.tailrace.common.TailraceConf

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
private[state] object LocalDisk {
  private val runs = new util.LinkedHashMap[LocalRun, Long](64, 0.75f, true)
  private var most = TailraceConf.LocalRunBytes.default
  private var total = 0L

  def configure(bytes: Long): Unit = synchronized { most = bytes }

  /** A run of so many bytes is read, or is about to be here. */
  // Runs must not call this while they hold their own lock: evict takes it.
  def used(run: LocalRun, bytes: Long): Unit = synchronized {
    total += bytes - Option(runs.put(run, bytes)).getOrElse(0L)
    lazy val others = runs.keySet.asScala.toSeq.iterator
    while (total > most && others.hasNext) {
      val other = others.next()
      if ((other ne run) && other.evict()) forget(other)
    }
  }

  /** Counts a run of so many bytes, if there is room for it. */
  def reserve(run: LocalRun, bytes: Long): Boolean = synchronized {
    val hasRoom = total + bytes <= most
    if (hasRoom) used(run, bytes)
    hasRoom
  }

  def deleted(run: LocalRun): Unit = synchronized(forget(run))

  private def forget(run: LocalRun): Unit = total -= Option(runs.remove(run)).getOrElse(0L)

  /** The bytes of the runs that are here. */
  def bytes: Long = synchronized(total)
}
