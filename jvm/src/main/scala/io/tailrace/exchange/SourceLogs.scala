package io.tailrace.exchange

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JNothing
import org.json4s.jackson.JsonMethods.parseOpt

import io.tailrace.checkpoint.DurableFiles

/** What Spark's sources keep in a checkpoint. A source of files numbers the files that it has read, and its offset is
  * such a number: in a checkpoint without the list, new files would get it, and never be read.
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
    val isThere = sources.exists(path => DurableFiles.in(path, conf).list(path).nonEmpty)
    offsets.find(of => !isThere && parseOpt(of).exists(_ \ "logOffset" != JNothing)).foreach { offset =>
      throw ExchangeErrors.rows(
        s"the offset $offset is a number in the list of a source of files, which the new checkpoint wouldn't have: " +
          "import with `export=` and without `offsets`, of an export by this release"
      )
    }
  }
}
