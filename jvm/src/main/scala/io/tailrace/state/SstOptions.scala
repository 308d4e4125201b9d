package io.tailrace.state

import org.rocksdb._

/** The RocksDB objects that all runs of a JVM share. They live as long as the JVM: nothing closes them. */
object SstOptions {
  RocksDB.loadLibrary()

  @volatile private var cacheBytes = io.tailrace.common.TailraceConf.BlockCacheBytes.default

  /** Sets the size of the block cache; without effect once the first run was opened. */
  def configureCache(bytes: Long): Unit = cacheBytes = bytes

  private lazy val cache = new LRUCache(cacheBytes)

  private def tableFormat: BlockBasedTableConfig =
    new BlockBasedTableConfig().setBlockCache(cache).setBlockSize(16L << 10).setFormatVersion(5)

  /** No bloom filter, on purpose: merges read whole ranges, and a prefix filter made a range scan lose rows without an
    * error when the design was tried. LZ4 is what Spark's RocksDB provider uses too.
    */
  lazy val options: Options =
    new Options()
      .setTableFormatConfig(tableFormat)
      .setCompressionType(CompressionType.LZ4_COMPRESSION)
      .setCreateIfMissing(true)

  lazy val environment: EnvOptions = new EnvOptions()

  /** Blocks are checked as they are read. */
  lazy val read: ReadOptions =
    new ReadOptions().setTotalOrderSeek(true).setVerifyChecksums(true)
}
