package io.tailrace.state

import java.io.{BufferedInputStream, File, IOException}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.checkpoint.{DurableFiles, TailraceFileManager}
import io.tailrace.common.Errors

/** The files of one partition's state in the query's checkpoint ([[StateFileNames]]). A version is one file:
  * its manifest, followed by the rows that its batch has added. Large runs have files of their own.
  *
  * {{{
  *   7_<id>.manifest    tailrace-state 3 0/3
  *                      {"version":7, "runs":[{"name":"6_<id>.manifest#0","offset":901, ...}, {"name":"#0", ...}]}
  *                      CRC-32C
  *                      bytes of #0
  * }}}
  *
  * Each file appears complete and synced, by one atomic create, a manifest after the runs of other files. So
  * a crash can only leave runs that no manifest names.
  */
final class CheckpointFiles(directory: Path, hadoopConf: Configuration) extends StateLog {
  import CheckpointFiles._

  private val files = DurableFiles.in(directory, hadoopConf)

  // Operator, partition, and the store if it has a directory, which stay when a checkpoint is moved.
  private val place = {
    // A path made of a URI may end in a slash, and then has no name.
    val store = new Path(directory.toString)
    val parts = Iterator.iterate(store)(_.getParent).map(_.getName).take(if (isStore(store)) 3 else 2)
    parts.toSeq.reverse.mkString("/")
  }

  private def isStore(path: Path) = path.getName.startsWith(StateLayout.Prefix)

  private val retained = new RetainedManifests

  private val recent = new RecentFiles

  override val durable = true

  /** Lists the directory for the first version without an id: an attempt may have made it before the query
    * started again. So does a task that runs again, whose first attempt may have made it elsewhere. This
    * one must count instead of these.
    */
  override def newManifest(version: Long, id: Option[String]): String =
    id.fold {
      if (!recent.isListed || SparkState.isRetry) list()
      StateFileNames.manifest(version, recent.beginAttempt(version))
    }(StateFileNames.manifestOf(version, _))

  override def upload(local: WrittenFile, name: String): Run = {
    files.write(new Path(directory, name))(local.copyTo)
    recent.written(name)
    Run(name, local.length, local.crc32c, Nil)
  }

  override def commit(file: String, manifest: Manifest, inline: Map[String, WrittenFile]): Manifest = {
    val measured = manifest.runs.map { run =>
      inline.get(run.name).fold(run)(local => run.copy(length = local.length, crc32c = local.crc32c))
    }
    val complete = manifest.copy(runs = measured)
    val text = Manifest.encode(complete, place, file)
    files.write(new Path(directory, file)) { out =>
      out.write(text)
      measured.foreach(run => inline.get(run.name).foreach(_.copyTo(out)))
    }
    recent.written(file)
    retained.know(file, manifest.fileNames)
    Manifest.placed(complete, file, text.length.toLong)
  }

  override def hasManifest(version: Long, id: Option[String]): Boolean =
    id.fold(lastManifest(version).isDefined)(i => files.exists(manifestOf(version, i)))

  override def readManifest(version: Long, id: Option[String]): Manifest = {
    // Another executor has written, and may have gone on.
    recent.expire()
    val path = id.fold {
      lastManifest(version).getOrElse {
        // As in the listing that a user looks at.
        throw Errors.stateFileMissing(new Path(directory, s"$version.*.manifest").toString, neededBy(version))
      }
    }(manifestOf(version, _))
    val manifest = decode(path, version, isWhole = true)
    if (manifest.version != version)
      throw Errors.stateFileCorrupt(path.toString, s"it describes version ${manifest.version}, not $version")
    manifest
  }

  private def manifestOf(version: Long, id: String) =
    new Path(directory, StateFileNames.manifestOf(version, id))

  private def lastManifest(version: Long): Option[Path] =
    list()
      .filter(file => StateFileNames.manifestVersion(file.getName).contains(version))
      .flatMap(file => StateFileNames.attempt(file.getName).map(_ -> file))
      .maxByOption { case (attempt, file) => (attempt, file.getName) }
      .map(_._2)

  /** The versions that have a manifest. In checkpoint format 2 a version may have several. One that isn't
    * retained any more may be among them, because its manifest's file has rows of later versions.
    */
  def versions: Set[Long] = list().flatMap(file => StateFileNames.manifestVersion(file.getName)).toSet

  override def copyOf(run: Run, local: File, version: Long, holds: LocalBytes): RunCopy =
    new RunCopy(files, directory, run, local, neededBy(version), holds)

  /** A run whose pages are read where it is; none: its file isn't on a local disk. */
  private[state] def linkTo(run: Run, version: Long): Option[RunLink] =
    files.localFile(new Path(directory, run.file)).map(new RunLink(run, _, neededBy(version)))

  /** Deletes temporary files of dead writers too. A run is kept if a retained manifest names it, or if it is
    * as new as the oldest of these: its manifest may not be written yet.
    *
    * Listings and deletions would be most of a partition's requests to an object store. So it lists now and
    * then, and knows in between what was written here. Where one request deletes many files, it waits for them.
    */
  override def purge(versionsToRetain: Int): Unit = {
    val isListed = recent.beginPurge()
    if (isListed) list()
    val dead = deadFiles(versionsToRetain)
    if (dead.nonEmpty && dead.size >= Math.min(deletePage, MostWaiting)) {
      // Another executor, which has written one of them, may have named it since in a version that is retained.
      // It may have named our own too, as long as each version since then was made twice.
      val isSure = isListed || (versionsToRetain > MostMadeTwice && dead.forall(recent.isOwn))
      if (!isSure) list()
      val sure = if (isSure) dead else deadFiles(versionsToRetain)
      // Manifests first: a purge that is cut off must leave no version without its runs.
      val (manifests, others) = sure.partition(StateFileNames.manifestVersion(_).isDefined)
      Seq(manifests, others).filter(_.nonEmpty).foreach(delete)
    }
  }

  private def deadFiles(versionsToRetain: Int): Seq[String] = {
    val known = recent.names
    val manifests = known.toSeq.flatMap(name => StateFileNames.manifestVersion(name).map(_ -> name))
    manifests.map(_._1).maxOption.toSeq.flatMap { newest =>
      val oldestRetained = newest - versionsToRetain + 1
      def isOld(version: Long) = version < oldestRetained
      // Old manifests' files too: rows that are alive may be in them.
      val old = known.filter(StateFileNames.runVersion(_).exists(isOld)).toSeq
      val temporary = known.filter(TailraceFileManager.temporaryOf(_).exists(isOld)).toSeq
      val named =
        if (old.isEmpty) Set.empty[String]
        else {
          val kept = manifests.filterNot { case (version, _) => isOld(version) }.map(_._2).toSet
          retained.fileNames(kept) { name =>
            decode(new Path(directory, name), StateFileNames.manifestVersion(name).get).fileNames
          }
        }
      temporary ++ old.filterNot(named)
    }
  }

  private def deletePage: Int =
    try files.deletePage
    catch { case e: IOException => throw Errors.stateFileUnavailable(directory.toString, "deleted", e) }

  /** @param isWhole whether nothing may follow the runs that the manifest says are in its file */
  private def decode(path: Path, version: Long, isWhole: Boolean = false): Manifest =
    files.stream(path, neededBy(version)) { in =>
      val text = Manifest.readText(new BufferedInputStream(in))
      val manifest = Manifest.decode(text, place, path)
      val inline = manifest.runs.filter(_.file == path.getName)
      if (isWhole && RunCopy.skipTo(in, text.length + inline.map(_.length).sum) && in.read() >= 0)
        throw Errors.stateFileCorrupt(path.toString, "it goes on behind the runs that it names")
      manifest
    }

  private def neededBy(version: Long) = s"version $version of the state"

  private def delete(names: Seq[String]): Unit = {
    val paths = names.map(new Path(directory, _))
    try files.deleteAll(paths)
    catch { case e: IOException => throw Errors.stateFileUnavailable(paths.head.toString, "deleted", e) }
    recent.deleted(names)
  }

  private def list(): Seq[Path] =
    try recent.listing(files.list(directory)).map(_.getPath)
    catch { case e: IOException => throw Errors.stateFileUnavailable(directory.toString, "listed", e) }
}

object CheckpointFiles {

  /** So many versions in a row may have been made by two executors each, one of which knows nothing of the other. */
  private val MostMadeTwice = 10

  /** Files that a purge leaves for the next one, where one request deletes many. */
  private val MostWaiting = 32
}

/** The files of one partition's state as far as they are known here: by a listing, and by what was written and
  * deleted here since then. Files of other executors are found by the next listing, a while later.
  *
  * {{{
  *   listing    1.1-a  2.1-b      written 3.1-c  4.1-d      deleted 1.1-a      known: 2.1-b  3.1-c  4.1-d
  * }}}
  */
private[state] final class RecentFiles {
  import RecentFiles._

  private var known = Option.empty[Set[String]]

  // Those that were written here.
  private var own = Set.empty[String]
  private var purges = 0
  private var expiries = 0

  // Listings that go on, and what was written since the first of them began: they may lack it.
  private var listings = 0
  private var writtenMeanwhile = Set.empty[String]

  // The last attempt at each version, as far as it was listed or begun here.
  private var attempts = Map.empty[Long, Int]

  def isListed: Boolean = synchronized(known.isDefined)

  /** @param list lists the directory
    * @return what it has found
    */
  def listing(list: => Seq[FileStatus]): Seq[FileStatus] = {
    val expired = synchronized {
      listings += 1
      expiries
    }
    try {
      val found = list
      listed(found.map(_.getPath.getName).toSet, expired)
      found
    } finally
      synchronized {
        listings -= 1
        if (listings == 0) writtenMeanwhile = Set.empty
      }
  }

  /** @param expired [[expiries]] when the listing began: what was written before a later one, it may lack */
  private def listed(found: Set[String], expired: Int): Unit = synchronized {
    own ++= writtenMeanwhile
    known = Some(found ++ own)
    if (expired == expiries) purges = 0
    for (name <- found; attempt <- StateFileNames.attempt(name); v <- StateFileNames.manifestVersion(name))
      attempts += v -> Math.max(attempt, attempts.getOrElse(v, 0))
  }

  def written(name: String): Unit = synchronized {
    if (known.isDefined) own += name
    known = known.map(_ + name)
    if (listings > 0) writtenMeanwhile += name
  }

  def deleted(names: Seq[String]): Unit = synchronized {
    known = known.map(_ -- names)
    own --= names
  }

  /** The next purge must list. */
  def expire(): Unit = synchronized {
    purges = PurgesOfListing
    expiries += 1
  }

  def names: Set[String] = synchronized(known.getOrElse(Set.empty))

  /** True if a file was written here. */
  def isOwn(name: String): Boolean = synchronized(own(name))

  /** Begins a purge. @return whether the files must be listed first */
  def beginPurge(): Boolean = synchronized {
    purges += 1
    known.isEmpty || purges > PurgesOfListing
  }

  /** @return the number of a new attempt at a version */
  def beginAttempt(version: Long): Int = synchronized {
    val attempt = attempts.getOrElse(version, 0) + 1
    attempts = attempts.filter(_._1 > version) + (version -> attempt)
    attempt
  }
}

private[state] object RecentFiles {

  /** Spark's maintenance purges once a minute, if it isn't set otherwise. */
  private val PurgesOfListing = 32
}

/** The files that retained manifests name, as far as they were read or written here: a purge a minute of a
  * hundred retained versions would read each of them a hundred times.
  *
  * A manifest never changes. That of an earlier release without an id is the exception, because another
  * attempt may have replaced it. It is read at each purge, as long as it is retained.
  */
private[state] final class RetainedManifests {
  private var known = Map.empty[String, Array[String]]

  def know(manifest: String, files: Iterable[String]): Unit = synchronized {
    known += manifest -> files.toArray
  }

  /** @param manifests that are retained; older ones are forgotten
    * @param read      the files that a manifest names
    */
  def fileNames(manifests: Set[String])(read: String => Set[String]): Set[String] = {
    // One that was written meanwhile isn't in the listing.
    val oldest = manifests.flatMap(StateFileNames.manifestVersion).minOption
    def isRetained(manifest: String) =
      StateFileNames.manifestVersion(manifest).exists(v => oldest.forall(v >= _))
    synchronized { known = known.filter { case (manifest, _) => isRetained(manifest) } }
    manifests.flatMap { name =>
      synchronized(known.get(name)).fold {
        val files = read(name)
        if (!StateFileNames.isReplaceable(name)) know(name, files)
        files
      }(_.toSet)
    }
  }
}

/** The log of `spark.tailrace.state.durability = none`. It writes nothing, so a commit waits for nothing.
  * Versions that a start with `full` has written can still be read.
  */
final class NoStateLog(kept: CheckpointFiles) extends StateLog {
  override val durable = false

  override def newManifest(version: Long, id: Option[String]): String = StateFileNames.manifest(version, 1)
  override def upload(local: WrittenFile, name: String): Run =
    Run(name, local.length, local.crc32c, Nil)
  override def commit(file: String, manifest: Manifest, inline: Map[String, WrittenFile]): Manifest = manifest
  override def hasManifest(version: Long, id: Option[String]): Boolean = kept.hasManifest(version, id)
  override def readManifest(version: Long, id: Option[String]): Manifest = kept.readManifest(version, id)
  override def copyOf(run: Run, local: File, version: Long, holds: LocalBytes): RunCopy =
    kept.copyOf(run, local, version, holds)
  override def purge(versionsToRetain: Int): Unit = kept.purge(versionsToRetain)
}

/** Keeps the versions of one partition's state, for other executors and for the next start of the query. */
trait StateLog {

  /** True if a committed version can be read again. */
  def durable: Boolean

  /** The name of the file of a version that a task begins to make. No other task's has it.
    *
    * @param id of the attempt, in Spark's checkpoint format 2
    */
  def newManifest(version: Long, id: Option[String]): String

  /** Keeps a finished local run. @return its entry in a manifest, without sections */
  def upload(local: WrittenFile, name: String): Run

  /** Creates a version. All runs that the manifest names must have been uploaded, or be inline.
    *
    * @param file   from [[newManifest]]
    * @param inline local files of the runs that come into the manifest's file, by the runs' names
    * @return the manifest, which says where its inline runs are
    */
  def commit(file: String, manifest: Manifest, inline: Map[String, WrittenFile]): Manifest

  def hasManifest(version: Long, id: Option[String]): Boolean

  def readManifest(version: Long, id: Option[String]): Manifest

  /** A copy of a version's run to a local file, with every byte checked. The caller begins it.
    *
    * @param local exists
    * @param holds what it has
    */
  def copyOf(run: Run, local: File, version: Long, holds: LocalBytes): RunCopy

  /** Deletes versions older than the newest `versionsToRetain`, but files with runs that retained ones name. */
  def purge(versionsToRetain: Int): Unit
}
