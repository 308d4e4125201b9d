package io.tailrace.state

import java.io.{File, IOException}
import java.nio.file.Files
import java.util.concurrent.CompletableFuture
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.internal.Logging
import org.rocksdb._

import io.tailrace.common.{Errors, TailraceConf}

/** The local copy of a run, open for reading. Several stores and versions may use it at a time, for instance
  * a killed task and its successor. So it counts its users, and the last one deletes the file. To close
  * RocksDB's reader under a cursor would end the JVM.
  *
  * A run of a checkpoint may not be here yet, or not any more, where [[LocalDisk]] has a bound. The first
  * cursor then waits for it:
  *
  * {{{
  *   load of version 7 ──> manifest ──> runs that aren't here, copied in the background
  *   cursor()          ──> not here: goes before the others, and waits ──> RocksDB's reader
  * }}}
  *
  * @param comingFrom how it comes from the checkpoint; none for a file that has been written here
  * @param link       to the checkpoint's own file, if few pages of it are read
  */
final class LocalRun(
    val name: String,
    val file: File,
    comingFrom: Option[RunCopy] = None,
    link: Option[RunLink] = None
) extends Logging {

  /** The version whose batch has written the run; none for a file that isn't part of the state. */
  lazy val version: Option[Long] = StateFileNames.runVersion(name)

  private var users = 0
  // Cursors, and those who wait for it: as long as there is one, the file isn't emptied.
  @volatile private var readers = 0
  private var gone = false
  private var isLeft = false
  private var reader: SstFileReader = _
  @volatile private var copy = comingFrom
  private val waited = new AtomicLong
  private var deletion = CompletableFuture.completedFuture(())

  private def hold(): Unit = synchronized { readers += 1 }
  private def letGo(): Unit = synchronized { readers -= 1 }

  def acquire(): Unit = synchronized {
    require(!gone, s"$name was released")
    users += 1
  }

  def release(): Unit = {
    val isLast = synchronized {
      users -= 1
      if (users == 0) delete()
      gone
    }
    if (isLast) LocalDisk.gone(this)
  }

  /** An iterator, to be given back to [[close]]. */
  private[state] def iterator(): SstFileReaderIterator = {
    synchronized {
      require(users > 0, s"$name is not in use")
      hold()
    }
    try {
      bring()
      copy.foreach(c => LocalDisk.used(this, c.length))
      synchronized {
        if (reader == null) {
          link.foreach(_.make(file))
          reader = openReader()
        }
        reader.newIterator(SstOptions.read)
      }
    } catch {
      case e: Throwable =>
        letGo()
        throw e
    }
  }

  private[state] def close(entries: SstFileReaderIterator): Unit = {
    entries.close()
    letGo()
  }

  /** Of the file, for errors. */
  private[tailrace] def path: String = link.fold(file.getPath)(_.path)

  /** A reader that couldn't be opened must not be used: RocksDB would end the JVM. */
  private def openReader(): SstFileReader = {
    val opened = new SstFileReader(SstOptions.options)
    try opened.open(file.getPath)
    catch {
      case e: RocksDBException =>
        opened.close()
        throw Errors.stateFileCorrupt(path, "RocksDB can't open it", e)
    }
    opened
  }

  private[state] def length: Long = copy.fold(0L)(_.length)
  private[state] def isHere: Boolean = copy.forall(_.isDone)
  private[state] def isUnchecked: Boolean = copy.exists(_.isUnchecked)
  private[state] def isComing: Boolean = copy.exists(_.isComing)
  private[state] def hasFailed: Boolean = copy.exists(_.hasFailed)

  /** Lets it be copied in the background, where there is room for it. */
  private[state] def begin(): Unit =
    copy.filterNot(_.isDone).foreach(c => if (LocalDisk.reserve(this, c.length)) c.begin() else c.discard())

  /** The same, with the room of others that were read longer ago. */
  private[state] def beginNow(): Unit = copy.foreach { c =>
    LocalDisk.used(this, c.length)
    if (!c.isDone) c.begin()
  }

  /** Lets it go before others. @return ends when it is here, or with its error */
  private[state] def hurry(): CompletableFuture[Unit] =
    copy.filterNot(_.isDone).fold(CompletableFuture.completedFuture(())) { c =>
      LocalDisk.used(this, c.length)
      c.hurry()
    }

  /** Waits until it is here. */
  private def bring(): Unit = copy.filterNot(_.isDone).foreach { c =>
    val started = System.nanoTime
    hold()
    try RunCopy.await(hurry())
    catch {
      case e: Throwable =>
        if (c.hasFailed) LocalDisk.gone(this)
        throw e
    } finally {
      letGo()
      waited.addAndGet(System.nanoTime - started): Unit
    }
  }

  /** Nanoseconds for which others have waited for it so far. */
  private[state] def waitedNanos: Long = waited.get

  /** Says that a file that was written here has come into the checkpoint. */
  private[state] def isIn(checkpoint: => RunCopy): Unit = {
    val isNew = synchronized {
      val isFirst = copy.isEmpty
      if (isFirst) copy = Some(checkpoint)
      isFirst
    }
    if (isNew) LocalDisk.used(this, length)
  }

  /** Empties the file, unless it is being read or copied, or is the only one. @return whether it did */
  private[state] def evict(): Boolean = readers == 0 && synchronized {
    val isFree = readers == 0 && !gone && copy.exists(_.isDone)
    isFree && {
      closeReader()
      copy.exists(_.empty())
    }
  }

  /** Waits until the file is deleted, if it has no users any more: a thread may still write to it. */
  private[state] def awaitDeletion(): Unit = synchronized(deletion).get()

  /** Lets the next owner of the partition have the file. */
  private[state] def leave(): Unit = synchronized { isLeft = true }

  private def delete(): Unit = {
    gone = true
    closeReader()
    val stays = isLeft && copy.exists(_.hasBytes)
    val quiet = copy.filterNot(_.isDone).fold(CompletableFuture.completedFuture(()))(_.stop())
    deletion = quiet.thenApply { _ =>
      try if (!stays) Files.deleteIfExists(file.toPath): Unit
      catch { case e: IOException => logWarning(s"$path can't be deleted", e) }
    }
  }

  private def closeReader(): Unit = {
    if (reader != null) reader.close()
    reader = null
  }
}

object LocalRun {

  /** Lets the runs of sections come side by side that are opened one after the other. */
  def prepare(sections: Seq[LiveSection]): Unit = LocalDisk.prepare(sections.map(_.local).distinct)
}

/** A section, with the run that it is in.
  *
  * @param shapes its rows are read in the newest of them
  */
final class LiveSection(
    val local: LocalRun,
    val section: Section,
    shapes: RowShapes = RowShapes.AsWritten
) {
  def cursor(): RunCursor = {
    val change =
      try shapes.change(section)
      catch {
        case e: ValueChange.UnfitException => throw Errors.stateFileCorrupt(local.path, e.getMessage, e)
      }
    new RunCursor(local, section.kind, section.bucket, section.minTime, change)
  }

  /** The same section, whose rows are read as they are. */
  def asWritten: LiveSection = new LiveSection(local, section)

  /** The same section with other counts. */
  def counting(counts: Section): LiveSection = new LiveSection(local, counts, shapes)

  /** Calls `row` with the cursor at each row, in the order of the section. */
  def foreachRow(row: RunCursor => Unit): Unit = {
    val at = cursor()
    try {
      at.first()
      while (at.isValid) {
        row(at)
        at.next()
      }
    } finally at.close()
  }
}

/** The RocksDB objects that all runs of a JVM share. They are never closed. */
object SstOptions {
  RocksDB.loadLibrary()

  @volatile private var cacheBytes = TailraceConf.BlockCacheBytes.default

  /** Sets the size of the block cache. It has no effect after the first run was opened. */
  def configureCache(bytes: Long): Unit = cacheBytes = bytes

  private lazy val cache = new LRUCache(cacheBytes)

  /** There is no bloom filter: merges read whole ranges, and in an experiment a prefix filter made a range
    * scan lose rows without an error.
    */
  lazy val options: Options = {
    val table = new BlockBasedTableConfig().setBlockCache(cache).setBlockSize(16L << 10).setFormatVersion(5)
    new Options()
      .setTableFormatConfig(table)
      .setCompressionType(CompressionType.LZ4_COMPRESSION)
      .setCreateIfMissing(true)
  }

  lazy val environment: EnvOptions = new EnvOptions()

  /** Checksums of blocks are verified on each read. */
  lazy val read: ReadOptions = new ReadOptions().setTotalOrderSeek(true).setVerifyChecksums(true)
}
