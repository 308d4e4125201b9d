package io.tailrace.sync

import org.apache.spark.sql.catalyst.expressions.XXH64

import io.tailrace.state.RowLayout

/** A hash of the key of a row, of which the upper 48 bits count. Two keys may have the same. */
abstract class KeyHash {

  /** @param base see [[io.tailrace.state.RowLayout]] */
  def of(base: AnyRef, at: Long): Long
}

object KeyHash {

  /** Nothing of it is ever written. */
  object XX64 extends KeyHash {
    override def of(base: AnyRef, at: Long): Long =
      XXH64.hashUnsafeBytes(base, RowLayout.keyAt(at), RowLayout.keyLength(base, at), 0L)
  }
}
