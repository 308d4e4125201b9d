package io.tailrace.state

import java.io.File

import org.rocksdb._

import io.tailrace.common.{ProcessPart, TailraceConf}

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
    val opened = BlockCache.ofExecutor.newReader()
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

/** RocksDB's cache of blocks, which all runs of an executor share. It is as large as the largest size that a query on the
  * executor has asked for, whatever the order in which they came. RocksDB can't enlarge one, so there is a new one then: runs
  * that are open keep the former one until they are closed.
  *
  * {{{
  *   query A asks for 128 MiB    its runs share 128 MiB
  *   query B asks for 512 MiB    all runs that are opened from now on share 512 MiB
  *   query C asks for 64 MiB     nothing changes
  * }}}
  */
final class BlockCache {
  private var asked = Option.empty[Long]
  private var made = Option.empty[(Long, LRUCache, Options)]

  /** Makes sure that it has at least this size. */
  def ask(bytes: Long): Unit = synchronized {
    asked = Some(asked.fold(bytes)(Math.max(_, bytes)))
  }

  /** The size that runs get which are opened now. */
  def bytes: Long = synchronized(asked.getOrElse(TailraceConf.BlockCacheBytes.default))

  // RocksDB copies the options. So they can be closed while readers and writers made of them are in use.
  def newReader(): SstFileReader = synchronized(new SstFileReader(options))

  def newWriter(): SstFileWriter = synchronized(new SstFileWriter(SstOptions.environment, options))

  /** The options that its readers and writers have. */
  def options: Options = synchronized {
    val size = bytes
    made.collect { case (`size`, _, options) => options }.getOrElse {
      made.foreach { case (_, cache, options) =>
        options.close()
        cache.close()
      }
      val cache = SstOptions.newCache(size)
      val options = SstOptions.withCache(cache)
      made = Some((size, cache, options))
      options
    }
  }
}

object BlockCache {
  private val part = new ProcessPart("block cache")(new BlockCache)

  /** That of this process. */
  def ofExecutor: BlockCache = part.here
}

/** RocksDB's options of our files. They are never closed. */
object SstOptions {
  RocksDB.loadLibrary()

  def newCache(bytes: Long): LRUCache = new LRUCache(bytes)

  /** There is no bloom filter: merges read whole ranges, and in an experiment a prefix filter made a range
    * scan lose rows without an error.
    */
  def withCache(cache: Cache): Options = {
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
