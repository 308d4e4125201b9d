package io.tailrace.state

import java.io._
import java.nio.file.NoSuchFileException
import java.util.zip.CRC32C

import org.rocksdb.RocksDBException

import io.tailrace.common.Errors

/** A finished local file, and what it had when it was written:
  *
  * {{{
  *   written   900 bytes, CRC-32C 7a1c...      copied   900 bytes, CRC-32C 7a1c...    the checkpoint has it
  *                                             copied   900 bytes, CRC-32C 03ff...    an error, and the checkpoint has nothing
  * }}}
  *
  * A checksum of what is copied alone would fit whatever a bad disk had made of the rows, permanently.
  */
final class WrittenFile private (val file: File, val length: Long, val crc32c: Long) {

  /** @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_LOCAL_FILE if it isn't any more as it was written */
  def copyTo(out: OutputStream): Unit = {
    val now = WrittenFile.read(file)(out.write(_, 0, _))
    if (now.length != length || now.crc32c != crc32c)
      throw WrittenFile.damaged(file, "it has changed since it was written")
  }
}

object WrittenFile {

  /** The file as it is now.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_LOCAL_FILE if it is gone
    */
  def of(file: File): WrittenFile = read(file)((_, _) => ())

  /** A run that has just been written. RocksDB has made the checksums of its blocks before it wrote them. So a disk that
    * has changed a block since then is found, and what it has made of it doesn't become what was written. The blocks are
    * checked behind the checksum of the whole: what changes later isn't copied.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_LOCAL_FILE if it is gone or damaged
    */
  def ofRun(file: File): WrittenFile = {
    val written = of(file)
    val reader = BlockCache.ofExecutor.newReader()
    try {
      reader.open(file.getPath)
      reader.verifyChecksum()
    } catch {
      case e: RocksDBException =>
        throw damaged(file, if (file.exists) s"a block can't be read: ${e.getMessage}" else "it is gone", e)
    } finally reader.close()
    written
  }

  /** It was deleted before it got into the checkpoint. */
  def gone(file: File, cause: IOException): Throwable = damaged(file, "it is gone", cause)

  private def read(file: File)(write: (Array[Byte], Int) => Unit): WrittenFile = {
    // An error of the local file isn't one of the file that it is copied to.
    def locally[T](body: => T): T =
      try body
      catch {
        case e @ (_: FileNotFoundException | _: NoSuchFileException) if !file.exists =>
          throw damaged(file, "it is gone", e)
        case e: IOException => throw Errors.stateFileUnavailable(file.getPath, "read", e)
      }
    val in = locally(new FileInputStream(file))
    try {
      val buffer = new Array[Byte](1 << 16)
      val crc = new CRC32C
      var length = 0L
      var n = locally(in.read(buffer))
      while (n >= 0) {
        write(buffer, n)
        crc.update(buffer, 0, n)
        length += n
        n = locally(in.read(buffer))
      }
      new WrittenFile(file, length, crc.getValue)
    } finally in.close()
  }

  private def damaged(file: File, reason: String, cause: Throwable = null) =
    Errors.stateLocalFile(file.getPath, LocalContent.Added.words, reason, cause)
}

/** The content of a local file that the checkpoint doesn't have.
  *
  * @param words for errors: "it has `words`"
  */
sealed abstract class LocalContent(val words: String)

object LocalContent {

  /** Rows that a batch, a compaction or a command has written, until they are in the checkpoint. */
  case object Added extends LocalContent("rows on their way into the checkpoint")

  /** Rows that aren't part of the state. */
  case object Scratch extends LocalContent("rows that a task has put aside for itself")

  /** The state of a query that runs with durability none. */
  case object OnlyCopy extends LocalContent("the state")
}
