package io.tailrace.windows

import java.lang.ref.WeakReference

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** The folders that queries of this JVM write. Only one query at a time writes a folder. */
object WrittenFolders {

  /** The lock of a folder, and its owner. */
  private[windows] final class Slot {
    private var folder: LandingFolder = _
    private var isRunning: () => Boolean = () => false

    def isOwnedBy(candidate: LandingFolder): Boolean = synchronized(folder eq candidate)
    def isBusy: Boolean = synchronized(isRunning())
    def take(by: LandingFolder, running: () => Boolean): Unit = synchronized {
      folder = by
      isRunning = running
    }
  }

  // Writers keep the slot of their folder alive, and so does a sink that isn't started yet.
  private val slots = mutable.HashMap.empty[String, WeakReference[Slot]]

  private def slot(path: Path): Slot = slots.synchronized {
    slots.filterInPlace((_, kept) => kept.get != null)
    val known = slots.get(path.toString).flatMap(kept => Option(kept.get))
    val slot = known.getOrElse(new Slot)
    if (known.isEmpty) slots(path.toString) = new WeakReference(slot)
    slot
  }

  private[windows] def size: Int = slots.synchronized(slots.values.count(_.get != null))

  /** @param isRunning whether the query that opens it is running
    * @throws io.tailrace.common.TailraceAnalysisException if it has other windows, or another query that runs
    */
  def open(
      path: Path,
      settings: LandingSettings,
      hadoopConf: Configuration,
      isRunning: () => Boolean
  ): LandingFolder = {
    val lock = slot(path)
    lock.synchronized {
      if (lock.isBusy) throw WindowErrors.folder(path.toString, "a query that runs in this session writes it")
      val folder = new LandingFolder(path, settings, hadoopConf, lock)
      folder.open()
      lock.take(folder, isRunning)
      folder
    }
  }
}
