package io.tailrace.exchange

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.OnFailure
import io.tailrace.rewrite.RewriteErrors

/** The directory of an export, which one command alone fills: two at once would both write all rows.
  *
  * {{{
  *   _tailrace_export.begun   written first, by a write that nobody can do twice
  *   operator-0/...
  *   _tailrace_export.json    the export is complete
  *                            and the first file is deleted
  * }}}
  */
private[exchange] final class ExportDirectory(path: Path, conf: Configuration) {
  private val files = DurableFiles.in(path, conf)
  private val begun = new Path(path, "_tailrace_export.begun")
  private def name = path.toString

  def checkFree(): Unit = SparkCheckpoint.readable(name) {
    if (files.list(path).nonEmpty) throw RewriteErrors.destinationExists(name)
  }

  /** Runs what writes the files. If it fails, nothing of them is left. */
  def fill[T](write: => T): T = SparkCheckpoint.naming {
    checkFree()
    val isNew = !files.exists(path)
    def orNothing[A](body: => A): A = OnFailure {
      if (isNew) files.delete(path) else files.list(path).foreach(of => files.delete(of.getPath))
    }(body)
    val isOwn = orNothing {
      try {
        files.create(begun)(_.write("not complete as long as this file is there alone\n".getBytes(UTF_8)))
        true
      } catch { case _: FileAlreadyExistsException => false }
    }
    if (!isOwn) throw RewriteErrors.destinationExists(name)
    orNothing {
      val written = write
      files.delete(begun)
      written
    }
  }(RewriteErrors.failed(name, _))
}
