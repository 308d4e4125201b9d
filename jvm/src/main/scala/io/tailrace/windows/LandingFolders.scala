package io.tailrace.windows

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** The folders that queries of this JVM write, each of them by one query at a time. */
object LandingFolders {

  /** A folder's lock, and who has it. */
  private[windows] final class Slot {
    private var folder: LandingFolder = _
    private var isRunning: () => Boolean = () => false
    private var numbers = LandingNumbers.none

    def isOwnedBy(candidate: LandingFolder): Boolean = synchronized(folder eq candidate)
    def isBusy: Boolean = synchronized(isRunning())
    def take(by: LandingFolder, running: () => Boolean): Unit = synchronized {
      folder = by
      isRunning = running
      numbers = LandingNumbers.none
    }
    def tell(now: LandingNumbers): Unit = synchronized { numbers = now }
    def told: LandingNumbers = synchronized(numbers)
  }

  private val slots = new ConcurrentHashMap[String, Slot]

  private def slot(path: Path): Slot = slots.computeIfAbsent(path.toString, _ => new Slot)

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

  /** For the query's progress. */
  def numbers(path: Path): LandingNumbers = slot(path).told

  private[windows] def tell(path: Path, numbers: LandingNumbers): Unit = slot(path).tell(numbers)
}

/** What the last batch has done to a folder. Times are microseconds; none: not yet.
  *
  * @param rows    that it has landed, late ones and those without an event time among them
  * @param open    windows that have rows and are open
  * @param through all windows that end then or before are closed
  * @param low     the low watermark that closes windows
  */
final case class LandingNumbers(
    rows: Long,
    late: Long,
    untimed: Long,
    open: Long,
    through: Option[Long],
    low: Option[Long]
)

object LandingNumbers {
  val none: LandingNumbers = LandingNumbers(0, 0, 0, 0, None, None)
}
