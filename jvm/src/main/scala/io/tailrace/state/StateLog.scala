package io.tailrace.state

import java.io._
import java.util.zip.CRC32C

import scala.util.matching.Regex

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.Errors

/** Keeps the versions of one partition's state, for other executors and for the next start of the query. */
trait StateLog {

  /** Whether a committed version can be read again. */
  def durable: Boolean

  /** Keeps a finished local run. @return its entry in a manifest, without sections */
  def upload(local: File, name: String): Run

  /** Creates a version. All runs that the manifest names must have been uploaded. */
  def writeManifest(manifest: Manifest, id: Option[String]): Unit

  def hasManifest(version: Long, id: Option[String]): Boolean

  def readManifest(version: Long, id: Option[String]): Manifest

  /** Copies a run to a local file, and checks every byte on the way. */
  def download(run: Run, local: File, version: Long): Unit

  /** Deletes versions older than the newest `versionsToRetain`, then the runs that only those named. */
  def purge(versionsToRetain: Int): Unit
}

/** The log of `spark.tailrace.state.durability = none`. It writes nothing, so a commit waits for nothing.
  * Versions that a start with `full` has written can still be read.
  */
final class NoStateLog(kept: CheckpointFiles) extends StateLog {
  override val durable = false

  override def upload(local: File, name: String): Run = Run(name, local.length, 0L, Nil)
  override def writeManifest(manifest: Manifest, id: Option[String]): Unit = ()
  override def hasManifest(version: Long, id: Option[String]): Boolean = kept.hasManifest(version, id)
  override def readManifest(version: Long, id: Option[String]): Manifest = kept.readManifest(version, id)
  override def download(run: Run, local: File, version: Long): Unit = kept.download(run, local, version)
  override def purge(versionsToRetain: Int): Unit = kept.purge(versionsToRetain)
}

/** The files of one partition's state in the query's checkpoint:
  *
  * {{{
  *   <version>.manifest              checkpoint format 1 of Spark
  *   <version>_<id>.manifest         checkpoint format 2
  *   <version>-<unique>.run          a run written by the batch that made <version>
  * }}}
  *
  * Each file appears complete and synced, by one atomic create, a manifest after its runs. So a crash can
  * only leave runs that no manifest names. Only this class knows the names of files.
  */
final class CheckpointFiles(directory: Path, hadoopConf: Configuration) extends StateLog with Logging {
  import CheckpointFiles._

  private val files = DurableFiles.in(directory, hadoopConf)

  // Operator and partition, which stay when a checkpoint is moved.
  private val place = {
    // A path made of a URI may end in a slash, and then has no name.
    val partition = new Path(directory.toString)
    s"${partition.getParent.getName}/${partition.getName}"
  }

  private val retained = new RetainedManifests

  private def manifestPath(version: Long, id: Option[String]): Path =
    new Path(directory, id.fold(s"$version.manifest")(i => s"${version}_$i.manifest"))

  override val durable = true

  override def upload(local: File, name: String): Run = {
    val in = new FileInputStream(local)
    try
      files.write(new Path(directory, name)) { out =>
        val (length, crc) = copy(in, out)
        Run(name, length, crc, Nil)
      }
    finally in.close()
  }

  override def writeManifest(manifest: Manifest, id: Option[String]): Unit = {
    val path = manifestPath(manifest.version, id)
    files.write(path)(_.write(Manifest.encode(manifest, place)))
    if (id.isDefined) retained.know(path.getName, None, manifest.fileNames)
  }

  override def hasManifest(version: Long, id: Option[String]): Boolean =
    files.exists(manifestPath(version, id))

  override def readManifest(version: Long, id: Option[String]): Manifest = {
    val path = manifestPath(version, id)
    val manifest = decode(path, version)
    if (manifest.version != version)
      throw Errors.stateFileCorrupt(path.toString, s"it describes version ${manifest.version}, not $version")
    manifest
  }

  /** The versions that have a manifest. In checkpoint format 2 a version may have several. */
  def versions: Set[Long] = list().flatMap(file => manifestVersion(file.getPath.getName)).toSet

  override def download(run: Run, local: File, version: Long): Unit = {
    val path = new Path(directory, run.name)
    val (length, crc) = files.stream(path, neededBy(version)) { in =>
      val out = new FileOutputStream(local)
      try copy(in, out)
      finally out.close()
    }
    if (length != run.length)
      throw Errors.stateFileCorrupt(path.toString, s"it has $length bytes instead of ${run.length}")
    if (crc != run.crc32c)
      throw Errors.stateFileCorrupt(path.toString, "its checksum doesn't fit its content")
  }

  /** Deletes temporary files of dead writers too. A run is kept if a retained manifest names it, or if it is
    * as new as the oldest of these: its manifest may not be written yet.
    */
  override def purge(versionsToRetain: Int): Unit = {
    val found = list()
    val names = found.map(_.getPath.getName)
    val manifests = found.flatMap(file => manifestVersion(file.getPath.getName).map(_ -> file))
    if (manifests.nonEmpty) {
      val oldestRetained = manifests.map(_._1).max - versionsToRetain + 1
      val (old, kept) = manifests.partition(_._1 < oldestRetained)
      val oldRuns = names.filter(name => runVersion(name).exists(_ < oldestRetained))
      names.filter(name => DurableFiles.temporaryOf(name).exists(_ < oldestRetained)).foreach(delete)
      if (old.nonEmpty || oldRuns.nonEmpty) {
        val named = retained.fileNames(kept)((version, file) => decode(file.getPath, version).fileNames)
        old.foreach { case (_, file) => delete(file.getPath.getName) }
        oldRuns.filterNot(named).foreach(delete)
      }
    }
  }

  private def decode(path: Path, version: Long): Manifest =
    Manifest.decode(files.read(path, neededBy(version)), place, path.toString)

  private def neededBy(version: Long) = s"version $version of the state"

  private def delete(name: String): Unit = {
    val path = new Path(directory, name)
    try files.delete(path)
    catch { case e: IOException => throw Errors.stateFileUnavailable(path.toString, "deleted", e) }
  }

  private def list(): Seq[FileStatus] =
    try files.list(directory)
    catch { case e: IOException => throw Errors.stateFileUnavailable(directory.toString, "listed", e) }
}

/** The runs that retained manifests name, as far as they were read or written here: a purge a minute of a
  * hundred retained versions would read each of them a hundred times.
  *
  * A manifest with an id never changes. One without may be replaced by another attempt's. Then its file has
  * another time, if the file system's clock has gone on since it was read:
  *
  * {{{
  *   7.manifest, of 12:00:07, in a listing whose newest file is of 12:00:09   is read at the next purge too
  *   7.manifest, of 12:00:07, in a listing whose newest file is of 12:01:00   is known: a later one isn't of 12:00:07
  * }}}
  */
private[state] final class RetainedManifests {
  import RetainedManifests._

  private var known = Map.empty[String, Known]

  /** @param stamp of the file that was read; none if it can't change */
  def know(manifest: String, stamp: Option[Stamp], runs: Iterable[String]): Unit = synchronized {
    known += manifest -> Known(stamp, runs.toArray)
  }

  /** @param manifests that are retained, with their versions; others are forgotten
    * @param read      the runs that a manifest names
    */
  def fileNames(manifests: Seq[(Long, FileStatus)])(read: (Long, FileStatus) => Set[String]): Set[String] = {
    val newestMs = manifests.map(_._2.getModificationTime).maxOption.getOrElse(0L)
    val names = manifests.map(_._2.getPath.getName).toSet
    synchronized { known = known.filter { case (manifest, _) => names(manifest) } }
    manifests.iterator.flatMap { case (version, file) =>
      val (name, stamp) = (file.getPath.getName, Stamp(file.getLen, file.getModificationTime))
      def readNow(): Array[String] = {
        val runs = read(version, file)
        if (CheckpointFiles.hasId(name)) know(name, None, runs)
        else if (newestMs - stamp.modifiedMs >= Settled) know(name, Some(stamp), runs)
        runs.toArray
      }
      synchronized(known.get(name)).filter(_.stamp.forall(_ == stamp)).fold(readNow())(_.runs)
    }.toSet
  }
}

private[state] object RetainedManifests {

  /** In milliseconds. File systems have times in whole seconds, some in two. */
  private val Settled = 10000L

  final case class Stamp(length: Long, modifiedMs: Long)

  private final case class Known(stamp: Option[Stamp], runs: Array[String])
}

object CheckpointFiles {
  private val ManifestName = """(\d+)(?:_.+)?\.manifest""".r
  private val RunName = """(\d+)-.+\.run""".r

  def runName(version: Long): String = s"$version-${java.util.UUID.randomUUID}.run"

  /** Whether it is a manifest of one attempt, which no other one replaces. */
  private[state] def hasId(manifest: String): Boolean = manifest.contains('_')

  private def manifestVersion(name: String): Option[Long] = versionIn(name, ManifestName)

  /** The version that was being made when the run was written. */
  private[state] def runVersion(name: String): Option[Long] = versionIn(name, RunName)

  private def versionIn(name: String, pattern: Regex): Option[Long] =
    pattern.unapplySeq(name).map(_.head.toLong)

  private def copy(in: InputStream, out: OutputStream): (Long, Long) = {
    val buffer = new Array[Byte](1 << 16)
    val crc = new CRC32C
    var length = 0L
    var n = in.read(buffer)
    while (n >= 0) {
      out.write(buffer, 0, n)
      crc.update(buffer, 0, n)
      length += n
      n = in.read(buffer)
    }
    (length, crc.getValue)
  }
}
