package io.tailrace.windows

import java.lang.ref.WeakReference

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** The folders that queries of this JVM write, each of them by one query at a time. */
object WrittenFolders {

  /** A folder's lock, and who has it. */
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

  // Those who write a folder keep its slot: a sink that has not been started yet too, which no run of a query has.
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
