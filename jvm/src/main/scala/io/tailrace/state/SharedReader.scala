package io.tailrace.state

import java.io.File

import org.rocksdb._

import io.tailrace.common.TailraceConf

/** RocksDB's reader of a local file, for all cursors of a run. One that is given up is closed with the last of its
  * iterators: to close it under a cursor would end the JVM.
  */
private[state] final class SharedReader private (reader: SstFileReader) {
  private var iterators = 0
  private var isGivenUp = false

  def iterator(): SstFileReaderIterator = synchronized {
    require(!isGivenUp, "the reader was given up")
    val made = reader.newIterator(SstOptions.read)
    iterators += 1
    made
  }

  def close(iterator: SstFileReaderIterator): Unit = synchronized {
    iterator.close()
    iterators -= 1
    closeIfOver()
  }

  def giveUp(): Unit = synchronized {
    isGivenUp = true
    closeIfOver()
  }

  private def closeIfOver(): Unit = if (isGivenUp && iterators == 0) reader.close()
}

private[state] object SharedReader {

  /** @throws org.rocksdb.RocksDBException if the file isn't there, or RocksDB can't read it */
  def open(file: File): SharedReader = {
    val opened = new SstFileReader(SstOptions.options)
    try opened.open(file.getPath)
    catch {
      // One that couldn't be opened must not be used: RocksDB would end the JVM.
      case e: Throwable =>
        opened.close()
        throw e
    }
    new SharedReader(opened)
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
