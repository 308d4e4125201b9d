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

  // Writers keep the slot of their folder alive. A sink that isn't started yet is a writer too, though
  // it has no run.
  private val slots = mutable.HashMap.empty[String, WeakReference[Slot]]

  private def slot(path: Path): Slot = slots.synchronized {
    slots.filterInPlace((_, kept) => kept.get != null)
    slots.get(path.toString).flatMap(kept => Option(kept.get)).getOrElse {
      val made = new Slot
      slots(path.toString) = new WeakReference(made)
      made
    }
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
    val of = slot(path)
    of.synchronized {
      if (of.isBusy) throw WindowErrors.folder(path.toString, "a query that runs in this session writes it")
      val folder = new LandingFolder(path, settings, hadoopConf, of)
      folder.open()
      of.take(folder, isRunning)
      folder
    }
  }
}
