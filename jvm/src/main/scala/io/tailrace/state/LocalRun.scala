package io.tailrace.state

import java.io.{File, IOException}
import java.nio.file.Files
import java.util.concurrent.CompletableFuture
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.internal.Logging
import org.rocksdb.{RocksDBException, SstFileReaderIterator, Status}

import io.tailrace.common.{Errors, TailraceStateException}

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
  * Where a file that the checkpoint has is found damaged or gone, another copy takes its place, and the cursors go
  * on with it, one after the other, each at the row where it was:
  *
  * {{{
  *   generation 0   file, reader, cursors a and b      a finds a damaged block
  *   generation 1   new file, new reader: a            b reads the former file until it finds damage, or ends
  * }}}
  *
  * @param comingFrom how it comes from the checkpoint; none for a file that has been written here
  * @param link       to the checkpoint's own file, if few pages of it are read
  * @param content    of a file that the checkpoint doesn't have, for errors
  * @param onReplaced is called when another copy takes the place of a damaged one
  */
final class LocalRun(
    val name: String,
    val file: File,
    comingFrom: Option[RunCopy] = None,
    link: Option[RunLink] = None,
    content: LocalContent = LocalContent.Added,
    onReplaced: () => Unit = () => ()
) extends LocalDisk.Resident
    with Logging {
  import LocalRun._

  /** The version whose batch has written the run; none for a file that isn't part of the state. */
  lazy val version: Option[Long] = StateFileNames.runVersion(name)

  private var users = 0
  // Cursors, and those who wait for it: as long as there is one, the file isn't emptied.
  @volatile private var readers = 0
  private var gone = false
  private var isLeft = false
  private var reader: SharedReader = _
  private var generation = 0
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
    if (isLast) LocalDisk.ofExecutor.gone(this)
  }

  /** Its entries, to be given back to [[close]]. */
  private[state] def open(): OpenRun = {
    synchronized {
      require(users > 0, s"$name is not in use")
      hold()
    }
    try opened(0)
    catch {
      case e: Throwable =>
        letGo()
        throw e
    }
  }

  private[state] def close(entries: OpenRun): Unit = {
    entries.close()
    letGo()
  }

  /** Other entries, where a read of these has failed, which are closed then.
    *
    * @param failures how often this read had failed before
    * @throws io.tailrace.common.TailraceStateException which says whose the damage is, if no other copy can help
    */
  private[state] def another(entries: OpenRun, failures: Int, error: RocksDBException): OpenRun = {
    damaged(entries.generation, failures, "a block can't be read", error)
    val next = opened(failures + 1)
    entries.close()
    next
  }

  private def opened(failuresBefore: Int): OpenRun = {
    var failures = failuresBefore
    var found: OpenRun = null
    while (found == null) {
      bring()
      copy.foreach(c => LocalDisk.ofExecutor.used(this, c.length))
      var tried = 0
      var error: RocksDBException = null
      synchronized {
        tried = generation
        // Another reader may have found it damaged meanwhile.
        if (isHere)
          try found = openHere()
          catch { case e: RocksDBException => error = e }
      }
      if (error != null) {
        damaged(tried, failures, "RocksDB can't open it", error)
        failures += 1
      }
    }
    found
  }

  private def openHere(): OpenRun = {
    if (reader == null) {
      link.foreach(_.make(file))
      copy.foreach { c =>
        if (file.length != c.length)
          throw new RocksDBException(s"it has ${file.length} bytes instead of ${c.length}")
      }
      reader = SharedReader.open(file)
    }
    new OpenRun(reader, generation)
  }

  /** Lets another copy come in the place of a file that can't be read.
    *
    * @param of       the generation that was read
    * @param failures of the same read before
    */
  private def damaged(of: Int, failures: Int, reason: String, error: RocksDBException): Unit =
    if (synchronized(generation == of)) {
      if (!isInCheckpoint) throw corrupt(reason, error)
      // A copy that is as the manifest says is no worse than the checkpoint's file.
      if (failures > 0 && copy.forall(_.isWhole))
        throw (if (isOfDisk(error)) Errors.stateFileUnavailable(file.getPath, "read", error)
               else corrupt(reason, error))
      if (failures >= MostReplaced) throw Errors.stateLocalCopy(file.getPath, path, reason, error)
      replace(of, reason, error)
    }

  private def isOfDisk(error: RocksDBException): Boolean =
    Option(error.getStatus).exists(_.getCode == Status.Code.IOError)

  private def replace(of: Int, reason: String, error: RocksDBException): Unit = {
    val isFirst = synchronized {
      (generation == of) && {
        generation += 1
        closeReader()
        copy.foreach(_.replace())
        true
      }
    }
    if (isFirst) {
      onReplaced()
      val how = if (file.exists) s"$reason: ${error.getMessage}" else "it is gone"
      logWarning(
        s"TAILRACE_STATE_LOCAL_COPY_REPLACED: the local copy $file of $path is damaged ($how); it is made again from " +
          "the checkpoint"
      )
    }
  }

  private def isInCheckpoint: Boolean = link.nonEmpty || copy.nonEmpty

  /** The path of the checkpoint's file, or of the local one if the checkpoint has none; for errors. */
  private[tailrace] def path: String = link.map(_.path).orElse(copy.map(_.path)).getOrElse(file.getPath)

  /** The error of invalid content that is as it was written: RocksDB has verified its checksums. */
  private[tailrace] def corrupt(reason: String, cause: Throwable = null): TailraceStateException =
    if (isInCheckpoint) Errors.stateFileCorrupt(path, reason, cause)
    else
      content match {
        case LocalContent.OnlyCopy => Errors.stateOnlyCopy(file.getPath, reason, cause)
        case own => Errors.stateLocalFile(file.getPath, own.words, reason, cause)
      }

  private[state] override def length: Long = copy.fold(0L)(_.length)
  private[state] override def isHere: Boolean = copy.forall(_.isDone)
  private[state] def isUnchecked: Boolean = copy.exists(_.isUnchecked)
  private[state] def isComing: Boolean = copy.exists(_.isComing)
  private[state] def hasFailed: Boolean = copy.exists(_.hasFailed)

  /** Lets it be copied in the background, where there is room for it. */
  private[state] def begin(): Unit =
    copy
      .filterNot(_.isDone)
      .foreach(c => if (LocalDisk.ofExecutor.reserve(this, c.length)) c.begin() else c.discard())

  /** The same, with the room of others that were read longer ago. */
  private[state] override def beginNow(): Unit = copy.foreach { c =>
    LocalDisk.ofExecutor.used(this, c.length)
    if (!c.isDone) c.begin()
  }

  /** Lets it go before others. @return ends when it is here, or with its error */
  private[state] def hurry(): CompletableFuture[Unit] =
    copy.filterNot(_.isDone).fold(CompletableFuture.completedFuture(())) { c =>
      LocalDisk.ofExecutor.used(this, c.length)
      c.hurry()
    }

  /** Waits until it is here. */
  private def bring(): Unit = copy.filterNot(_.isDone).foreach { c =>
    val started = System.nanoTime
    hold()
    try RunCopy.await(hurry())
    catch {
      case e: Throwable =>
        if (c.hasFailed) LocalDisk.ofExecutor.gone(this)
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
    if (isNew) LocalDisk.ofExecutor.used(this, length)
  }

  /** Empties the file, unless it is being read or copied, or is the only one. @return whether it did */
  private[state] override def evict(): Boolean = readers == 0 && synchronized {
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
    if (reader != null) reader.giveUp()
    reader = null
  }
}

/** Entries of a run, in the file that it had at a time. */
private[state] final class OpenRun(reader: SharedReader, val generation: Int) {
  val entries: SstFileReaderIterator = reader.iterator()
  def close(): Unit = reader.close(entries)
}

object LocalRun {

  /** So many copies of one file may be bad in a row; then the disk is. */
  private val MostReplaced = 3
}
