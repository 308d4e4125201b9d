package io.tailrace.testkit

import java.io.{FileNotFoundException, IOException}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.util
import java.util.Collection

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** Hadoop's file system over an [[ObjectStore]], with the requests that a client makes of each call:
  *
  * {{{
  *          what is there         a new file                              a rename
  *   s3a    HEAD, LIST if not     probes, PUT when the stream ends        COPY, DELETE for each object
  *   gcs    HEAD, LIST if not     probes, begin of an upload, PUT         COPY, DELETE for each object
  *   abfs   HEAD                  PUT empty, PUT bytes, PUT flush         one request, in one step
  * }}}
  *
  * Only S3A's streams can be aborted. Directories are markers, keys that end in a slash.
  *
  * `createFile` takes S3A's options: `fs.s3a.create.performance` leaves out the probes, and
  * `fs.option.create.conditional.overwrite` makes the PUT conditional.
  */
final class ObjectStoreFileSystem extends FileSystem {
  import ObjectStoreFileSystem._

  override def getScheme: String = Scheme
  override def getUri: URI = Name
  override def getDefaultPort: Int = -1
  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    setConf(conf)
  }
  override def getWorkingDirectory: Path = new Path(s"$Name/")
  override def setWorkingDirectory(path: Path): Unit = ()

  override def getXAttr(path: Path, name: String): Array[Byte] = {
    val found = ObjectStore.head(key(path)).getOrElse(throw new FileNotFoundException(path.toString))
    found.header.filter(_._1 == name).map(_._2.getBytes(UTF_8)).orNull
  }

  override def hasPathCapability(path: Path, capability: String): Boolean = capability match {
    case ConditionalKey => client == S3a
    case CommonPathCapabilities.ABORTABLE_STREAM => client == S3a
    case CommonPathCapabilities.FS_APPEND => false
    case _ => super.hasPathCapability(path, capability)
  }

  private def client = getConf.get(ClientKey, S3a)

  private def key(path: Path): String = makeQualified(path).toUri.getPath.stripPrefix("/")

  override def getFileStatus(path: Path): FileStatus = {
    val name = key(path)
    val file = if (name.isEmpty) None else ObjectStore.head(name)
    file.map(fileStatus(path, _)).getOrElse {
      val prefix = if (name.isEmpty) "" else s"$name/"
      def isDirectory =
        if (client == Abfs) ObjectStore.isDirectory(name) else ObjectStore.list(prefix, most = 2).nonEmpty
      if (name.nonEmpty && !isDirectory) throw new FileNotFoundException(path.toString)
      directoryStatus(path)
    }
  }

  override def isFile(path: Path): Boolean = ObjectStore.head(key(path)).isDefined

  private def fileStatus(path: Path, stored: ObjectStore.Stored) =
    new FileStatus(stored.bytes.length, false, 1, 32L << 20, stored.modified, makeQualified(path))

  private def directoryStatus(path: Path) = new FileStatus(0, true, 1, 0, 0, makeQualified(path))

  override def listStatus(path: Path): Array[FileStatus] = {
    val name = key(path)
    val prefix = if (name.isEmpty) "" else s"$name/"
    val found = ObjectStore.list(prefix)
    if (found.isEmpty && name.nonEmpty)
      ObjectStore
        .head(name)
        .fold(throw new FileNotFoundException(path.toString))(s => Array(fileStatus(path, s)))
    else {
      val children = found.flatMap { case (child, stored) =>
        child.stripPrefix(prefix) match {
          case "" => None
          case below if below.contains('/') => Some(below.takeWhile(_ != '/') -> None)
          case below => Some(below -> Some(stored))
        }
      }
      children
        .distinctBy(_._1)
        .map {
          case (below, Some(stored)) => fileStatus(new Path(path, below), stored)
          case (below, None) => directoryStatus(new Path(path, below))
        }
        .toArray
    }
  }

  override def open(path: Path, bufferSize: Int): FSDataInputStream = {
    val status = getFileStatus(path)
    if (status.isDirectory) throw new FileNotFoundException(s"$path is a directory")
    new FSDataInputStream(new ObjectInput(key(path), status.getLen))
  }

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    probe(path, overwrite)
    begin(path, exclusive = false, None)
  }

  /** What S3A asks before it opens a file for writing. */
  private def probe(path: Path, overwrite: Boolean): Unit = {
    val name = key(path)
    if (!overwrite && ObjectStore.head(name).isDefined) throw new FileAlreadyExistsException(s"$path exists")
    if (client != Abfs && ObjectStore.list(s"$name/", most = 2).nonEmpty)
      throw new FileAlreadyExistsException(s"$path is a directory")
  }

  private def begin(path: Path, exclusive: Boolean, header: Option[(String, String)]): FSDataOutputStream = {
    val before = client match {
      case Abfs => 2
      case Gcs => 1
      case _ => 0
    }
    (0 until before).foreach(_ => ObjectStore.note(ObjectStore.Put, key(path)))
    val out = new ObjectOutput(key(path), exclusive, header)
    new FSDataOutputStream(if (client == S3a) out else new NotAbortable(out), null)
  }

  override def createFile(path: Path): FSDataOutputStreamBuilder[_, _] = new Builder(this, path)

  private final class Builder(fs: FileSystem, path: Path)
      extends FSDataOutputStreamBuilder[FSDataOutputStream, Builder](fs, path) {
    override def getThisBuilder: Builder = this
    override def build(): FSDataOutputStream = {
      val overwrite = getFlags.contains(CreateFlag.OVERWRITE)
      val exclusive = getOptions.getBoolean(ConditionalKey, false)
      if (!getOptions.getBoolean(PerformanceKey, false)) probe(path, overwrite || exclusive)
      val headers = getOptions.asScala.map(e => e.getKey -> e.getValue).collectFirst {
        case (name, value) if name.startsWith(HeaderKey) => s"header.${name.stripPrefix(HeaderKey)}" -> value
      }
      begin(path, exclusive, headers)
    }
  }

  override def append(path: Path, bufferSize: Int, progress: Progressable): FSDataOutputStream =
    throw new UnsupportedOperationException("append")

  override def rename(from: Path, to: Path): Boolean = {
    val source = getFileStatus(from)
    val target =
      try Some(getFileStatus(to))
      catch { case _: FileNotFoundException => None }
    getFileStatus(to.getParent)
    if (target.exists(!_.isDirectory)) false
    else {
      val place = if (target.isDefined) new Path(to, from.getName) else to
      val moved =
        if (source.isDirectory)
          ObjectStore.list(s"${key(from)}/").map { case (k, _) =>
            k -> s"${key(place)}/${k.stripPrefix(s"${key(from)}/")}"
          }
        else Seq(key(from) -> key(place))
      if (client == Abfs) ObjectStore.rename(moved)
      else {
        moved.foreach { case (a, b) => ObjectStore.copy(a, b) }
        ObjectStore.delete(moved.map(_._1))
      }
      keepParent(from)
      true
    }
  }

  override def delete(path: Path, recursive: Boolean): Boolean =
    try {
      val status = getFileStatus(path)
      if (status.isDirectory) {
        val below = ObjectStore.list(s"${key(path)}/").map(_._1)
        if (!recursive && below.exists(_ != s"${key(path)}/")) throw new IOException(s"$path is not empty")
        ObjectStore.delete(below)
      } else ObjectStore.delete(Seq(key(path)))
      keepParent(path)
      true
    } catch { case _: FileNotFoundException => false }

  /** S3A's: a request for a page of keys, and no look at what is there. */
  override def createBulkDelete(base: Path): BulkDelete = new BulkDelete {
    override def pageSize: Int = 250
    override def basePath: Path = makeQualified(base)
    override def bulkDelete(paths: Collection[Path]): util.List[util.Map.Entry[Path, String]] = {
      require(paths.size <= pageSize && paths.asScala.forall(_.toString.startsWith(s"$basePath/")))
      ObjectStore.delete(paths.asScala.toSeq.map(key))
      util.List.of()
    }
    override def close(): Unit = ()
  }

  /** Clients see to it that a directory doesn't end with its last file. In ABFS it is one of its own. */
  private def keepParent(path: Path): Unit = {
    val parent = key(path.getParent)
    if (client == Abfs) ObjectStore.keepDirectory(parent)
    else if (parent.nonEmpty && ObjectStore.list(s"$parent/", most = 2).isEmpty)
      ObjectStore.put(s"$parent/", Array.emptyByteArray, exclusive = false)
  }

  override def mkdirs(path: Path, permission: FsPermission): Boolean = {
    def exists(p: Path): Boolean =
      try {
        if (!getFileStatus(p).isDirectory) throw new FileAlreadyExistsException(s"$p is a file")
        true
      } catch { case _: FileNotFoundException => false }
    if (!exists(path)) {
      Iterator.iterate(path.getParent)(_.getParent).takeWhile(p => p != null && !p.isRoot).find(exists)
      ObjectStore.put(s"${key(path)}/", Array.emptyByteArray, exclusive = false)
    }
    true
  }
}

object ObjectStoreFileSystem {
  val Scheme = "obj"
  val Name: URI = URI.create("obj://bucket")

  /** Whose requests are made: that of a client below. */
  val ClientKey = "tailrace.test.objectstore.client"
  val S3a = "s3a"
  val Abfs = "abfs"
  val Gcs = "gcs"
  private val PerformanceKey = "fs.s3a.create.performance"
  private val HeaderKey = "fs.s3a.create.header."
  private val ConditionalKey = "fs.option.create.conditional.overwrite"

  /** A configuration that knows the scheme, for `FileSystem` and for `FileContext`. */
  def configure(conf: Configuration): Configuration = {
    conf.set(s"fs.$Scheme.impl", classOf[ObjectStoreFileSystem].getName)
    // Tests have several configurations in one JVM.
    conf.setBoolean(s"fs.$Scheme.impl.disable.cache", true)
    conf.set(s"fs.AbstractFileSystem.$Scheme.impl", classOf[ObjectStoreFs].getName)
    conf
  }
}

/** The same for `FileContext`, as S3A's own is made. */
final class ObjectStoreFs(uri: URI, conf: Configuration)
    extends DelegateToFileSystem(
      uri,
      ObjectStoreFs.delegate(conf),
      conf,
      ObjectStoreFileSystem.Scheme,
      false
    ) {
  override def getUriDefaultPort: Int = -1
}

private object ObjectStoreFs {
  def delegate(conf: Configuration): FileSystem = {
    val fs = new ObjectStoreFileSystem
    fs.initialize(ObjectStoreFileSystem.Name, conf)
    fs
  }
}
