package io.tailrace.checkpoint

import java.io.{ByteArrayOutputStream, EOFException, FileNotFoundException, IOException, OutputStream}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.annotation.nowarn
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.tailrace.{CancellableFSDataOutputStream, CheckpointFileManager}

import io.tailrace.common.ProcessPart

/** Writes each file of a checkpoint into an object store by one PUT. Spark's own manager writes a temporary
  * file and renames it. An object store does that by a copy and a delete, with a dozen probes around them.
  *
  * {{{
  *   Spark's manager   HEAD LIST  PUT .7.tmp  HEAD HEAD LIST HEAD  COPY 7  DELETE .7.tmp  LIST
  *   this manager      PUT 7                       (a new file: PUT 7, If-None-Match: *)
  * }}}
  *
  * An object appears whole when its stream is closed, so a stream that is cancelled must be aborted. Only
  * file systems that can do this are served ([[ObjectStoreFileManager.serves]]).
  *
  * A store may do a PUT and lose the answer. The client's second PUT of a new file then finds the first one.
  * Each new file has the name of its writer as metadata, which distinguishes this case from another writer's file.
  */
final class ObjectStoreFileManager(root: Path, conf: Configuration)
    extends CheckpointFileManager
    with BulkDeletes {
  import ObjectStoreFileManager._

  private val files = root.getFileSystem(conf)
  private val made = ConcurrentHashMap.newKeySet[Path]()
  private val recent = new RecentEntries
  private lazy val createsExclusively = files.hasPathCapability(root, Conditional)

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    if (overwriteIfPossible) {
      recent.forget(path)
      replacing(begin(path, overwrite = true, NoProbes -> "true"))
    } else if (createsExclusively) {
      val writer = UUID.randomUUID.toString
      val header = s"$HeaderOption$WriterHeader" -> writer
      val out = begin(path, overwrite = false, NoProbes -> "true", Conditional -> "true", header)
      new Creating(out, Option.when(RecentEntries.isEntry(path))(new CopiedOutput(out)), path, writer)
      // The client itself checks that the file doesn't exist. Two writers at the same moment can both get the name.
    } else replacing(begin(path, overwrite = false))

  private def replacing(out: FSDataOutputStream) = new Replacing(out, out)

  private def begin(path: Path, overwrite: Boolean, options: (String, String)*): FSDataOutputStream =
    build(files.createFile(path), overwrite, options)

  // Hadoop's type of a builder has no name in Scala.
  private def build[S <: FSDataOutputStream, B <: FSDataOutputStreamBuilder[S, B]](
      builder: FSDataOutputStreamBuilder[S, B],
      overwrite: Boolean,
      options: Seq[(String, String)]
  ): FSDataOutputStream = {
    builder.recursive()
    builder.overwrite(overwrite)
    options.foreach { case (name, value) => builder.opt(name, value) }
    builder.build()
  }

  override def open(path: Path): FSDataInputStream =
    recent.find(path).fold(files.open(path))(BytesInput.open)

  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    try files.listStatus(path, filter)
    catch { case _: FileNotFoundException if made.contains(path) => Array.empty }

  /** Spark asks for each entry of a log before it writes it. Mostly the answer is known here ([[RecentEntries]]).
    * An entry is never a directory, so that one HEAD is enough; for other names S3A asks by a LIST, too.
    */
  override def exists(path: Path): Boolean =
    if (RecentEntries.isEntry(path))
      recent.find(path).isDefined || ((recent.mayExist(path) || !refusesSecond(path)) && isFile(path))
    else
      try {
        files.getFileStatus(path)
        true
      } catch { case _: FileNotFoundException => false }

  /** True if the store really refuses the second of two writers. Some accept the condition and ignore it.
    * It is tested once per bucket, with a file next to the entry whose name is that of a temporary one.
    */
  private def refusesSecond(entry: Path): Boolean = refusing.here.computeIfAbsent(
    files.getUri,
    _ => {
      val probe = new Path(entry.getParent, s".0.${UUID.randomUUID}.tmp")
      def create(): Unit = createAtomic(probe, overwriteIfPossible = false).close()
      create()
      try {
        create()
        false
      } catch { case _: FileAlreadyExistsException => true }
      finally files.delete(probe, false): Unit
    }
  )

  // Only with this call does a file system know that the answer for a directory doesn't matter.
  @nowarn("cat=deprecation")
  private def isFile(path: Path): Boolean = files.isFile(path)

  /** Directories are the names of objects. Spark's logs make theirs, and list it before it has a file. */
  override def mkdirs(path: Path): Unit = made.add(path): Unit

  override def delete(path: Path): Unit = {
    recent.forget(path)
    files.delete(path, true): Unit
  }

  override lazy val deletePage: Int = {
    val bulk = files.createBulkDelete(root)
    try bulk.pageSize
    finally bulk.close()
  }

  override def deleteAll(paths: Seq[Path]): Unit = {
    paths.foreach(recent.forget)
    val bulk = files.createBulkDelete(root)
    try
      paths.map(files.makeQualified).grouped(bulk.pageSize).foreach { page =>
        val failed = bulk.bulkDelete(page.asJava).asScala
        failed.headOption.foreach { failure =>
          throw new IOException(s"${failure.getKey} and ${failed.size - 1} others: ${failure.getValue}")
        }
      }
    finally bulk.close()
  }

  override def isLocal: Boolean = false

  override def createCheckpointDirectory(): Path = {
    // Spark resolves it to a name with scheme and bucket.
    files.mkdirs(root)
    files.makeQualified(root)
  }

  /** @param into receives the bytes, which then go to `out` */
  private class Replacing(out: FSDataOutputStream, into: OutputStream)
      extends CancellableFSDataOutputStream(into) {
    private var ended = false

    /** A stream of an object store can't be synced before its end. */
    override def hsync(): Unit = ()
    override def hflush(): Unit = ()

    override def close(): Unit = if (!ended) {
      ended = true
      try out.close()
      catch {
        case e: IOException => failed(e)
      }
      written()
    }

    protected def failed(e: IOException): Unit = throw e
    protected def written(): Unit = ()

    override def cancel(): Unit = if (!ended) {
      ended = true
      out.abort()
      // Nothing is left to write.
      try out.close()
      catch { case NonFatal(_) => () }
    }
  }

  /** @param copied of an entry of a log */
  private final class Creating(
      out: FSDataOutputStream,
      copied: Option[CopiedOutput],
      path: Path,
      writer: String
  ) extends Replacing(out, copied.getOrElse(out)) {
    override protected def written(): Unit = copied.foreach(copy => recent.written(path, copy.content))

    override protected def failed(e: IOException): Unit = {
      recent.forget(path)
      val found =
        try Some(files.getXAttr(path, s"header.$WriterHeader"))
        catch {
          case _: FileNotFoundException => None
          case lookup: IOException =>
            e.addSuppressed(lookup)
            throw e
        }
      if (found.isEmpty) throw e
      if (!found.exists(name => name != null && new String(name, UTF_8) == writer))
        throw new FileAlreadyExistsException(s"$path exists").initCause(e)
    }
  }
}

object ObjectStoreFileManager {

  // By the bucket.
  private[checkpoint] val refusing =
    new ProcessPart("checked buckets")(new ConcurrentHashMap[URI, Boolean])

  // Names of S3A, which other file systems ignore, because `opt` asks for what a file system may have.
  private val NoProbes = "fs.s3a.create.performance"
  private val Conditional = "fs.option.create.conditional.overwrite"
  private val HeaderOption = "fs.s3a.create.header."
  private val WriterHeader = "tailrace-writer"

  /** True if a file system shows a file only when its stream has been closed, and can drop one that has not. */
  def serves(path: Path, conf: Configuration): Boolean =
    path.getFileSystem(conf).hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM)
}

/** Keeps the bytes written to a file, unless they become more than `most`. */
private[checkpoint] final class CopiedOutput(out: OutputStream, most: Long = RecentEntries.MostBytes)
    extends OutputStream {
  private var copy = Option(new ByteArrayOutputStream)

  /** None if it was too much. */
  def content: Option[Array[Byte]] = copy.map(_.toByteArray)

  override def write(byte: Int): Unit = {
    out.write(byte)
    room(1).foreach(_.write(byte))
  }

  override def write(source: Array[Byte], offset: Int, length: Int): Unit = {
    out.write(source, offset, length)
    room(length).foreach(_.write(source, offset, length))
  }

  private def room(length: Int): Option[ByteArrayOutputStream] = {
    copy = copy.filter(_.size.toLong + length <= most)
    copy
  }

  override def flush(): Unit = out.flush()
  override def close(): Unit = out.close()
}

/** Bytes in memory that are read as a file's. */
private[checkpoint] object BytesInput {
  def open(content: Array[Byte]): FSDataInputStream = new FSDataInputStream(new BytesInput(content))
}

private final class BytesInput(content: Array[Byte]) extends FSInputStream {
  private var at = 0

  override def seek(position: Long): Unit = {
    if (position < 0 || position > content.length)
      throw new EOFException(s"$position of ${content.length} bytes")
    at = position.toInt
  }

  override def getPos: Long = at.toLong
  override def seekToNewSource(target: Long): Boolean = false
  override def available: Int = content.length - at

  override def read(): Int =
    if (available == 0) -1
    else {
      at += 1
      content(at - 1) & 0xff
    }

  override def read(into: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (available == 0) -1
    else {
      val n = Math.min(length, available)
      System.arraycopy(content, at, into, offset, n)
      at += n
      n
    }
}

/** The newest entries of Spark's logs that one file manager has written. Spark asks for each entry before it
  * writes it, and reads an entry of a file source three times: for its micro-batch, for the next compaction of
  * the log, and for each of these it asks again. Entries are written once and never changed, so an
  * entry that was written here needs no request.
  *
  * {{{
  *   written(sources/0/7)
  *   mayExist(sources/0/8)   false: the writer of 7 writes 8. If another query has written it, the create fails
  *   find(sources/0/7)       its bytes
  *   mayExist(sources/0/5)   true: ask the store
  * }}}
  */
private[checkpoint] final class RecentEntries {
  import RecentEntries._

  private val contents = mutable.LinkedHashMap.empty[Path, Array[Byte]]
  private val newest = mutable.Map.empty[Path, Long]
  private var bytes = 0L

  /** @param content none if it is too much to keep */
  def written(entry: Path, content: Option[Array[Byte]]): Unit = synchronized {
    val log = entry.getParent
    number(entry).filter(n => newest.get(log).forall(_ < n)).foreach(newest.put(log, _))
    drop(entry)
    content.foreach { all =>
      contents.put(entry, all)
      bytes += all.length + Overhead
    }
    while (bytes > MostBytes) drop(contents.head._1)
  }

  /** @param path of an entry, or of a log with all its entries */
  def forget(path: Path): Unit = synchronized {
    // An old one may be deleted, as in a purge; the newest never changes.
    if (number(path).exists(n => newest.get(path.getParent).exists(_ <= n))) newest.remove(path.getParent)
    newest.remove(path)
    contents.keys.filter(entry => entry == path || entry.getParent == path).toSeq.foreach(drop)
  }

  /** An entry's bytes, if it was written here and is still kept. */
  def find(entry: Path): Option[Array[Byte]] = synchronized(contents.get(entry))

  /** True if only the store knows whether an entry exists. The one after the newest of its log doesn't exist. */
  def mayExist(entry: Path): Boolean = synchronized {
    val next = newest.get(entry.getParent).map(_ + 1)
    next.isEmpty || number(entry) != next
  }

  private def drop(entry: Path): Unit = contents.remove(entry).foreach(bytes -= _.length + Overhead)
}

private[checkpoint] object RecentEntries {

  /** The bytes of all entries together. An entry of a file source has some 200 bytes per file. */
  val MostBytes: Long = 4L << 20

  // The bytes of an entry's name and of its place in memory.
  private val Overhead = 1024L

  private val Logs = Set("offsets", "commits", "_spark_metadata")
  private val Entry = """(\d+)(?:\.compact)?""".r

  /** True if a path is one like `offsets/7`, `commits/7`, `sources/0/7`, `sources/0/9.compact`, or of the log of
    * a file sink.
    */
  def isEntry(path: Path): Boolean = {
    val log = path.getParent
    number(path).isDefined && log != null && !log.isRoot &&
    (Logs(log.getName) || log.getParent.getName == "sources")
  }

  private def number(path: Path): Option[Long] = path.getName match {
    case Entry(digits) => digits.toLongOption
    case _ => None
  }
}

/** A file manager that deletes several files by one request. */
trait BulkDeletes {

  /** The most files of one request. */
  def deletePage: Int

  /** @param paths of files, which need not exist */
  def deleteAll(paths: Seq[Path]): Unit
}

/** Deletes files by any manager: by a request for many where it can, else one after the other. */
private[checkpoint] object BulkDeletes {
  def deleteAll(manager: CheckpointFileManager, paths: Seq[Path]): Unit = manager match {
    case bulk: BulkDeletes => bulk.deleteAll(paths)
    case _ => paths.foreach(manager.delete)
  }

  /** The number of files that one request deletes. */
  def page(manager: CheckpointFileManager): Int = manager match {
    case bulk: BulkDeletes => bulk.deletePage
    case _ => 1
  }
}
