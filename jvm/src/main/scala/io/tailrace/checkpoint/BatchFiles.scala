package io.tailrace.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** A directory whose entries are numbered, mostly by micro-batch: `<number><suffix>`. Other entries are not its own.
  *
  * @param suffixes of the entries. An entry without a suffix is a directory
  */
final class BatchFiles(val directory: Path, val files: DurableFiles, suffixes: Seq[String]) {
  import BatchFiles._

  def this(directory: Path, hadoopConf: Configuration, suffixes: String*) =
    this(directory, DurableFiles.in(directory, hadoopConf), suffixes)

  /** In the order of the file system; empty if nobody has written yet. */
  def list(): Seq[Entry] = files.names(directory).flatMap { name =>
    val digits = name.takeWhile(c => c >= '0' && c <= '9')
    val suffix = name.substring(digits.length)
    digits.toLongOption.filter(_ => suffixes.contains(suffix)).map(Entry(_, suffix))
  }

  def path(entry: Entry): Path = new Path(directory, s"${entry.number}${entry.suffix}")
  def path(number: Long, suffix: String = suffixes.head): Path = path(Entry(number, suffix))

  /** The place that a file says of itself, below the checkpoint: `<directory>/<names>`. */
  def place(names: String*): String = (directory.getName +: names).mkString("/")

  def write(number: Long, suffix: String = suffixes.head)(bytes: Array[Byte]): Unit =
    files.write(path(number, suffix))(_.write(bytes))

  def delete(entries: Iterable[Entry]): Unit = entries.foreach(entry => files.delete(path(entry)))
}

object BatchFiles {

  /** One of the entries of the directory. */
  final case class Entry(number: Long, suffix: String)
}
