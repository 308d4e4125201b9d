package io.tailrace.state

import java.io.{File, IOException}
import java.nio.channels.{FileChannel, FileLock, OverlappingFileLockException}
import java.nio.file.StandardOpenOption.{CREATE, WRITE}
import java.nio.file.{Files, LinkOption, StandardCopyOption}
import java.security.MessageDigest
import java.util
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.{Errors, ProcessPart, TailraceConf}

/** The local files of one partition on one executor. Without a setting they are in a directory that Spark
  * deletes when the executor ends. With `spark.tailrace.state.localDirectory` they outlive it, and the next
  * owner of the partition on this machine takes what its version names:
  *
  * {{{
  *   /disk/tailrace-state/0-3-<checkpoint>/run-a/   lock, 6-x.run, 7-y.run, 8-z.run (cut)    its owner was killed
  *                                         run-b/   lock                                     a new owner
  *   version 7 is loaded                   run-b/   lock, 6-x.run, 7-y.run                   moved, and checked
  *   version 8 is committed                run-a/ is deleted
  * }}}
  *
  * An owner holds the lock of its directory, so files are only taken of one that is dead or closed. A zombie
  * of a closed owner may still delete its files: where they were, there are none any more.
  *
  * @param before the directories of earlier owners, whose locks are held
  */
private[state] final class LocalDirectory private (
    val path: File,
    private var lock: Option[FileLock],
    private var before: Seq[(File, FileLock)]
) extends Logging {
  private var isClosed = false

  def file(name: String): File = {
    if (!path.isDirectory) restore()
    new File(path, name)
  }

  /** Makes it again, where a program has deleted it that cleans folders of temporary files. */
  private def restore(): Unit = synchronized {
    try {
      Files.createDirectories(path.toPath)
      logWarning(s"TAILRACE_STATE_LOCAL_DIRECTORY: $path was deleted while it was in use; it is made again")
      // The lock was on a file that is gone.
      if (!isClosed) lock = lock.map { held =>
        held.channel.close()
        LocalDirectory.locked(path).getOrElse(throw new IOException("another process locks it"))
      }
    } catch { case e: IOException => throw Errors.stateFileUnavailable(path.getPath, "created", e) }
  }

  /** True if the files are of use when the owner has ended. */
  def outlivesOwner: Boolean = lock.nonEmpty

  /** Moves a file of an earlier owner here, if one has it. Its bytes are unchecked. */
  def take(run: Run): Option[File] = synchronized {
    val here = file(run.name)
    before.iterator
      .map { case (directory, _) => new File(directory, run.name) }
      // The file that a link names may be deleted with its owner's directory.
      .filter(left => Files.isRegularFile(left.toPath, LinkOption.NOFOLLOW_LINKS))
      .filter(left => run.length > 0 && left.length == run.length && !here.exists)
      .find(left => Try(Files.move(left.toPath, here.toPath, StandardCopyOption.ATOMIC_MOVE)).isSuccess)
      .map(_ => here)
  }

  /** Deletes what earlier owners have left and the state doesn't need. */
  def forgetBefore(): Unit = synchronized {
    before.foreach { case (directory, held) => LocalDirectory.delete(directory, held) }
    before = Nil
  }

  /** Says that the owner lives, and deletes directories of partitions that don't come back. */
  def maintain(): Unit = lock.foreach { _ =>
    val now = System.currentTimeMillis
    file(LocalDirectory.Lock).setLastModified(now)
    if (LocalDirectory.isSweepDue(now)) LocalDirectory.sweep(path.getParentFile.getParentFile, now)
  }

  /** Lets the next owner have the files. A directory without any is deleted. */
  def close(): Unit = synchronized {
    isClosed = true
    before.foreach { case (_, held) => held.channel.close() }
    before = Nil
    val isEmpty = Option(path.list).exists(_.forall(_ == LocalDirectory.Lock))
    lock match {
      case Some(held) if isEmpty => LocalDirectory.delete(path, held)
      case Some(held) => held.channel.close()
      // This fails while a task still uses a run. Then Spark removes the directory when the JVM ends.
      case None => if (isEmpty) path.delete(): Unit
    }
  }
}

private[state] object LocalDirectory extends Logging {
  private[state] val Lock = "lock"

  /** A directory that nobody has used for this time is deleted. */
  private[state] val KeptMillis = TimeUnit.DAYS.toMillis(1)
  private val Attempts = 10
  private val SweepMillis = TimeUnit.HOURS.toMillis(1)
  private val sweptAt = new ProcessPart("sweep")(new AtomicLong)

  /** @param name      of operator and partition
    * @param location  of the partition's files in the checkpoint
    * @param isDurable whether the checkpoint has what its local files have
    */
  def of(
      name: String,
      location: Path,
      setting: String => Option[String],
      isDurable: Boolean
  ): LocalDirectory = {
    val disks = TailraceConf.LocalDirectory.read(setting)
    if (disks.isEmpty || !isDurable)
      new LocalDirectory(SparkState.localDirectory(s"tailrace-$name"), None, Nil)
    else {
      val hash = hashOf(location.toString)
      val disk = disks(Math.floorMod(s"$hash-$name".hashCode, disks.size))
      kept(new File(disk, s"tailrace-state/$name-$hash"))
    }
  }

  private def kept(partition: File): LocalDirectory =
    try {
      Files.createDirectories(partition.toPath)
      val earlier = directoriesIn(partition).flatMap(directory => locked(directory).map(directory -> _))
      // Another owner that looks for directories may have locked a new one before us.
      val (own, lock) = Iterator
        .continually(SparkState.directoryIn(partition, "run"))
        .take(Attempts)
        .flatMap(own => locked(own).map(own -> _))
        .nextOption()
        .getOrElse(throw new IOException("other processes lock its directories"))
      new LocalDirectory(own, Some(lock), earlier)
    } catch {
      case e: IOException => throw Errors.stateFileUnavailable(partition.getPath, "created", e)
    }

  private def hashOf(text: String): String =
    MessageDigest
      .getInstance("SHA-256")
      .digest(text.getBytes("UTF-8"))
      .take(12)
      .map("%02x".format(_))
      .mkString

  private def directoriesIn(directory: File): Seq[File] =
    Option(directory.listFiles).fold(Seq.empty[File])(_.filter(_.isDirectory).toSeq)

  /** @return none if its owner lives */
  private def locked(directory: File): Option[FileLock] =
    try {
      val channel = FileChannel.open(new File(directory, Lock).toPath, CREATE, WRITE)
      val lock =
        try Option(channel.tryLock())
        catch { case _: OverlappingFileLockException => None }
      if (lock.isEmpty) channel.close()
      lock
    } catch {
      // Another owner may have deleted it just now.
      case e: IOException =>
        logWarning(s"$directory can't be locked: files in it aren't used", e)
        None
    }

  private def delete(directory: File, held: FileLock): Unit = {
    try Option(directory.listFiles).foreach(_.foreach(file => Files.deleteIfExists(file.toPath)))
    catch { case e: IOException => logWarning(s"$directory can't be deleted", e) }
    held.channel.close()
    if (directory.delete()) directory.getParentFile.delete(): Unit
  }

  /** Deletes what has been left for long by partitions that are elsewhere now, of all checkpoints. */
  private[state] def sweep(root: File, now: Long): Unit =
    try
      for {
        partition <- directoriesIn(root)
        directory <- directoriesIn(partition)
        // The lock's is that of the last maintenance. The directory's counts while there is no lock yet.
        used = Math.max(new File(directory, Lock).lastModified, directory.lastModified)
        if now - used >= KeptMillis
        held <- locked(directory)
      } delete(directory, held)
    catch { case NonFatal(e) => logWarning(s"old directories in $root can't be deleted", e) }

  private def isSweepDue(now: Long): Boolean = {
    val last = sweptAt.here.get
    now - last >= SweepMillis && sweptAt.here.compareAndSet(last, now)
  }
}

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
