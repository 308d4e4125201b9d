package io.tailrace.checkpoint

import java.io.{File, FileNotFoundException, IOException, OutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.tailrace.{CancellableFSDataOutputStream, CheckpointFileManager}

import io.tailrace.common.{Errors, OnFailure}

/** Reads and writes the files of a checkpoint. A file appears whole and synced, or not at all. Errors name
  * the file, and distinguish a missing file, a damaged file and a failing file system.
  */
final class DurableFiles(open: => CheckpointFileManager) {
  private lazy val manager = open

  /** Writes a file, and replaces one of that name. @return the result of `body` */
  def write[T](path: Path)(body: OutputStream => T): T =
    try put(path, overwrite = true)(body)
    catch { case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e) }

  /** @return the result of `body`
    * @throws org.apache.hadoop.fs.FileAlreadyExistsException if the file is there
    */
  def create[T](path: Path)(body: OutputStream => T): T =
    try put(path, overwrite = false)(body)
    catch {
      case e: FileAlreadyExistsException => throw e
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e)
    }

  /** Opens a file for a writer that takes long. The file appears when the stream is closed. */
  def begin(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    try manager.createAtomic(path, overwriteIfPossible = overwrite)
    catch {
      // HDFS and object stores require that the directory exists.
      case _: FileNotFoundException =>
        manager.mkdirs(path.getParent)
        manager.createAtomic(path, overwriteIfPossible = overwrite)
    }

  private def put[T](path: Path, overwrite: Boolean)(body: OutputStream => T): T = {
    val out = begin(path, overwrite)
    OnFailure(out.cancel()) {
      val result = body(out)
      out.hsync()
      out.close()
      result
    }
  }

  /** Lists a directory. A directory that doesn't exist yet is empty. */
  def list(directory: Path): Seq[FileStatus] =
    try manager.list(directory).toSeq
    catch { case _: FileNotFoundException => Nil }

  def names(directory: Path): Seq[String] = list(directory).map(_.getPath.getName)

  def exists(path: Path): Boolean = manager.exists(path)

  /** Deletes a file, or a directory with its content. A path that doesn't exist is no error. */
  def delete(path: Path): Unit = manager.delete(path)

  /** Reads a file that may be missing.
    *
    * @throws io.tailrace.common.TailraceStateException if the file is damaged, or the file system fails
    */
  def find(path: Path): Option[Array[Byte]] = content(path).toOption

  /** Reads a file that must exist.
    *
    * @param neededBy the part of the query that needs the file, for errors: "batch 7"
    * @throws io.tailrace.common.TailraceStateException if the file can't be read
    */
  def read(path: Path, neededBy: => String): Array[Byte] =
    content(path).fold(e => throw Errors.stateFileMissing(path.toString, neededBy, e), identity)

  private def content(path: Path): Either[FileNotFoundException, Array[Byte]] = naming(path) {
    try {
      val in = manager.open(path)
      try Right(in.readAllBytes())
      finally in.close()
    } catch { case e: FileNotFoundException => Left(e) }
  }

  /** Reads a file that must exist and may not fit in memory.
    *
    * @see [[read]]
    */
  def stream[T](path: Path, neededBy: => String)(body: FSDataInputStream => T): T = naming(path) {
    val in = openStream(path, neededBy)
    try body(in)
    finally in.close()
  }

  /** @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_MISSING */
  def openStream(path: Path, neededBy: => String): FSDataInputStream =
    try manager.open(path)
    catch { case e: FileNotFoundException => throw Errors.stateFileMissing(path.toString, neededBy, e) }

  /** The file on a local disk; none: it is elsewhere. */
  def localFile(path: Path): Option[File] = manager match {
    case _: LocalFileManager => Some(new File(path.toUri.getPath))
    case _ => None
  }

  /** Deletes files; if the file system can, by one request for many, without checking that they exist. */
  def deleteAll(paths: Seq[Path]): Unit = BulkDeletes.deleteAll(manager, paths)

  /** The number of files that [[deleteAll]] deletes by one request. */
  def deletePage: Int = BulkDeletes.page(manager)

  private def naming[T](path: Path)(body: => T): T =
    try body
    catch {
      case e: ChecksumException => throw Errors.stateFileCorrupt(path.toString, "its file system says so", e)
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "read", e)
    }
}

object DurableFiles {

  /** @param directory the files are in it or below it */
  def in(directory: Path, hadoopConf: Configuration): DurableFiles =
    new DurableFiles(TailraceFileManager.forPath(directory, hadoopConf))

  /** Copies a file, which may not fit in memory. */
  def copy(from: Path, to: Path, conf: Configuration, neededBy: String): Unit =
    in(from, conf).stream(from, neededBy) { source =>
      in(to, conf).write(to)(target => source.transferTo(target): Unit)
    }

  /** Copies a directory's files, and those below; nothing if it isn't there.
    *
    * @param neededBy for errors
    */
  def copyAll(from: Path, to: Path, conf: Configuration, neededBy: String): Unit = {
    in(from, conf).list(from).foreach { status =>
      val into = new Path(to, status.getPath.getName)
      if (status.isDirectory) copyAll(status.getPath, into, conf, neededBy)
      else copy(status.getPath, into, conf, neededBy)
    }
  }
}

/** A directory of files that are numbered by micro-batch: `<number><suffix>`. It ignores all other names.
  *
  * {{{
  *   <checkpoint>/tailrace-replay/<name>/12.snapshot      Entry(12, ".snapshot")
  *                                       13/...           Entry(13, ""), a directory
  * }}}
  *
  * @param suffixes all suffixes that entries have; "" for directories
  */
final class BatchFiles(val directory: Path, val files: DurableFiles, suffixes: Seq[String]) {
  import BatchFiles._

  def this(directory: Path, hadoopConf: Configuration, suffixes: String*) =
    this(directory, DurableFiles.in(directory, hadoopConf), suffixes)

  /** The entries in the order of the file system. A directory that doesn't exist yet has none. */
  def list(): Seq[Entry] = files.names(directory).flatMap(entry(_))

  private def entry(name: String): Option[Entry] = {
    val digits = name.takeWhile(c => c >= '0' && c <= '9')
    val suffix = name.substring(digits.length)
    digits.toLongOption.filter(_ => suffixes.contains(suffix)).map(Entry(_, suffix))
  }

  def path(entry: Entry): Path = new Path(directory, s"${entry.number}${entry.suffix}")
  def path(number: Long, suffix: String = suffixes.head): Path = path(Entry(number, suffix))

  /** The place that a file contains: `<directory's name>/<names>`. It stays when the checkpoint is moved. */
  def place(names: String*): String = (directory.getName +: names).mkString("/")

  def write(number: Long, suffix: String = suffixes.head)(bytes: Array[Byte]): Unit =
    files.write(path(number, suffix))(_.write(bytes))

  /** Deletes the entries before a number, and the temporary files that writers who died have left of them. */
  def deleteBefore(number: Long): Unit = {
    val names = files.names(directory)
    val temporary = names.filter(TailraceFileManager.temporaryOf(_).exists(_ < number))
    files.deleteAll(temporary.map(new Path(directory, _)))
    delete(names.flatMap(entry(_)).filter(_.number < number))
  }

  def delete(entries: Iterable[Entry]): Unit = {
    val (directories, others) = entries.partition(_.suffix.isEmpty)
    directories.foreach(entry => files.delete(path(entry)))
    files.deleteAll(others.map(path(_)).toSeq)
  }
}

object BatchFiles {

  /** The names of the directories below `root` in which a batch has written. Entries of other programs
    * (`.DS_Store`, `.nfs...`, `x_$folder$`) is none of them.
    *
    * @param known directories that count without a batch, too
    */
  def directories(root: Path, files: DurableFiles, known: Set[String], suffixes: String*): Seq[String] =
    files
      .list(root)
      .filter(_.isDirectory)
      .map(_.getPath)
      .filter(path => known(path.getName) || new BatchFiles(path, files, suffixes).list().nonEmpty)
      .map(_.getName)

  /** A file or directory, by its name. */
  final case class Entry(number: Long, suffix: String)
}
