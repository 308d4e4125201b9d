package io.tailrace.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

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
