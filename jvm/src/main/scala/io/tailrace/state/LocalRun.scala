package io.tailrace.state

import java.io.File
import java.nio.file.Files

import org.rocksdb._

import io.tailrace.common.{Errors, TailraceConf}

/** The local copy of a run, open for reading. Several stores and versions may use it at a time, for instance
  * a killed task and its successor. So it counts its users, and the last one deletes the file. To close
  * RocksDB's reader under a cursor would end the JVM.
  */
final class LocalRun(val name: String, val file: File) {

  /** The version whose batch has written the run; none for a file that isn't part of the state. */
  lazy val version: Option[Long] = StateFileNames.runVersion(name)

  private var users = 0
  private var gone = false
  private var reader: SstFileReader = _

  def acquire(): Unit = synchronized {
    require(!gone, s"$name was released")
    users += 1
  }

  def release(): Unit = synchronized {
    users -= 1
    if (users == 0) delete()
  }

  private[state] def iterator(): SstFileReaderIterator = synchronized {
    require(users > 0, s"$name is not in use")
    if (reader == null) reader = openReader()
    reader.newIterator(SstOptions.read)
  }

  private[tailrace] def path: String = file.getPath

  /** A reader that couldn't be opened must not be used: RocksDB would end the JVM. */
  private def openReader(): SstFileReader = {
    val opened = new SstFileReader(SstOptions.options)
    try opened.open(path)
    catch {
      case e: RocksDBException =>
        opened.close()
        throw Errors.stateFileCorrupt(path, "RocksDB can't open it", e)
    }
    opened
  }

  private def delete(): Unit = {
    gone = true
    if (reader != null) reader.close()
    reader = null
    Files.deleteIfExists(file.toPath)
  }
}

/** A section, with the run that it is in. */
final class LiveSection(val local: LocalRun, val section: Section) {
  def cursor(): RunCursor = new RunCursor(local, section.kind, section.bucket, section.minTime)

  /** Calls `row` with the cursor at each row, in the order of the section. */
  def foreachRow(row: RunCursor => Unit): Unit = {
    val at = cursor()
    try {
      at.first()
      while (at.isValid) {
        row(at)
        at.next()
      }
    } finally at.close()
  }
}

/** The RocksDB objects that all runs of a JVM share. They are never closed. */
object SstOptions {
  RocksDB.loadLibrary()

  @volatile private var cacheBytes = TailraceConf.BlockCacheBytes.default

  /** Sets the size of the block cache. It has no effect after the first run was opened. */
  def configureCache(bytes: Long): Unit = cacheBytes = bytes

  private lazy val cache = new LRUCache(cacheBytes)

  /** There is no bloom filter: merges read whole ranges, and in an experiment a prefix filter made a range
    * scan lose rows without an error.
    */
  lazy val options: Options = {
    val table = new BlockBasedTableConfig().setBlockCache(cache).setBlockSize(16L << 10).setFormatVersion(5)
    new Options()
      .setTableFormatConfig(table)
      .setCompressionType(CompressionType.LZ4_COMPRESSION)
      .setCreateIfMissing(true)
  }

  lazy val environment: EnvOptions = new EnvOptions()

  /** Checksums of blocks are verified on each read. */
  lazy val read: ReadOptions = new ReadOptions().setTotalOrderSeek(true).setVerifyChecksums(true)
}
