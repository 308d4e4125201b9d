package io.tailrace.checkpoint

import scala.collection.mutable

import org.apache.hadoop.fs.Path

/** The newest entries of Spark's logs that one file manager has written. Spark asks for each entry before it
  * writes it, and reads an entry of a file source three times: for its micro-batch, for the next compaction of
  * the log, and for each of these it asks again. Entries are written once and never changed, so what was
  * written here needs no request.
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
    // An old one may go, as in a purge; the newest stays what it is.
    if (number(path).exists(n => newest.get(path.getParent).exists(_ <= n))) newest.remove(path.getParent)
    newest.remove(path)
    contents.keys.filter(entry => entry == path || entry.getParent == path).toSeq.foreach(drop)
  }

  /** An entry's bytes, if it was written here and is still kept. */
  def find(entry: Path): Option[Array[Byte]] = synchronized(contents.get(entry))

  /** Whether only the store knows if an entry is there. The one behind the newest of its log isn't. */
  def mayExist(entry: Path): Boolean = synchronized {
    val next = newest.get(entry.getParent).map(_ + 1)
    next.isEmpty || number(entry) != next
  }

  private def drop(entry: Path): Unit = contents.remove(entry).foreach(bytes -= _.length + Overhead)
}

private[checkpoint] object RecentEntries {

  /** Of all entries together. An entry of a file source has some 200 bytes a file. */
  val MostBytes: Long = 4L << 20

  // Of an entry's name and place in memory.
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
