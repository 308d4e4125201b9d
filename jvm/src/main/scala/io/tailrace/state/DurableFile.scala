package io.tailrace.state

import java.io.OutputStream

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** One file of a checkpoint: it appears whole and synced, or not at all. */
object DurableFile {

  /** Replaces the file if it is there. @return what `body` gives */
  def write[T](files: CheckpointFileManager, path: Path)(body: OutputStream => T): T = {
    val out = files.createAtomic(path, overwriteIfPossible = true)
    try {
      val result = body(out)
      out.hsync()
      out.close()
      result
    } catch {
      case e: Throwable =>
        try out.cancel()
        catch { case NonFatal(cancelFailure) => e.addSuppressed(cancelFailure) }
        throw e
    }
  }
}
