package io.tailrace.state

import org.rocksdb.{BlockBasedTableConfig, CompressionType}
import org.scalatest.funsuite.AnyFunSuite

final class SstOptionsSuite extends AnyFunSuite {

  test("the format of SST files doesn't change") {
    assert(BlockCache.ofExecutor.options.compressionType == CompressionType.LZ4_COMPRESSION)
    BlockCache.ofExecutor.options.tableFormatConfig match {
      case table: BlockBasedTableConfig =>
        assert(table.formatVersion == 5)
        assert(table.filterPolicy == null)
      case other => fail(s"$other")
    }
  }

  test("every block is checked as it is read") {
    assert(SstOptions.read.verifyChecksums)
  }
}
