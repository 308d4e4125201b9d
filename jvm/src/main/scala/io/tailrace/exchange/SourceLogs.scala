package io.tailrace.exchange

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JNothing
import org.json4s.jackson.JsonMethods.parseOpt

import io.tailrace.checkpoint.DurableFiles

/** The files of Spark's sources in a checkpoint. A source of files numbers the files that it has read, and its offset
  * is such a number: in a checkpoint without the list, new files would get used numbers, and never be read.
  *
  * {{{
  *   list of the exported query   0: a.parquet   1: b.parquet    offset 1
  *   a new checkpoint, empty      0: a, b and the new c          offset 0: read already
  * }}}
  */
private[exchange] object SourceLogs {

  /** Their directory in an export. */
  def in(directory: Path): Path = new Path(directory, "sources")

  /** Refuses numbers in lists that aren't there. */
  def check(offsets: Seq[String], sources: Option[Path], conf: Configuration): Unit = {
    // Each source has a directory, by its number.
    def isThere(source: Int) = sources.exists { directory =>
      val path = new Path(directory, source.toString)
      DurableFiles.in(path, conf).list(path).nonEmpty
    }
    val isOfList = offsets.map(parseOpt(_).exists(_ \ "logOffset" != JNothing))
    offsets.indices.find(source => isOfList(source) && !isThere(source)).map(offsets).foreach { offset =>
      throw ExchangeErrors.rows(
        s"the offset $offset is a number in the list of a source of files, which the new checkpoint wouldn't have: " +
          "import with `export=` and without `offsets`, of an export by this release"
      )
    }
  }
}
