package io.tailrace.sync

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.XXH64

import io.tailrace.state._

/** The keys and the times of a batch's new right rows, to find the left rows of the state that may have one of them. A key
  * is 32 bits of its hash: where two keys have the same, a row is looked up in vain.
  *
  * @param most beyond this number of rows it returns true for all: to read all left rows costs less than the rest of
  *             the batch
  */
private[sync] final class NewKeys(settings: SyncSettings, hash: KeyHash, most: Int = NewKeys.Most) {
  import NewKeys._

  private var codes = new Array[Int](1024)
  private var count = 0
  private var earliest = Long.MaxValue
  private var latest = Long.MinValue

  // A table with open addressing, made for the first question. Zero is empty.
  private var table: Array[Int] = _

  def isEmpty: Boolean = count == 0

  /** @param keyBase its key alone, of `keyLength` bytes */
  def add(keyBase: AnyRef, keyAt: Long, keyLength: Int, time: Long): Unit = {
    earliest = Math.min(earliest, time)
    latest = Math.max(latest, time)
    if (count < most) {
      if (count == codes.length) codes = Arrays.copyOf(codes, Math.min(most, count * 2))
      codes(count) = short(hash.ofBytes(keyBase, keyAt, keyLength))
    }
    if (count <= most) count += 1
  }

  /** The time of the oldest left row that one of them may be joined with. */
  def reachesFrom: Long = SyncRules.reachesFrom(earliest, settings)

  /** The time of the youngest one. */
  def reachesThrough: Long = SyncRules.reachesThrough(latest, settings)

  /** The hash that [[has]] looks up.
    *
    * @param base see [[io.tailrace.state.RowLayout]]
    */
  def codeOf(base: AnyRef, at: Long): Int = short(hash.of(base, at))

  /** True if one of them may have this key. All must have been added. */
  def has(code: Int): Boolean = count > most || {
    if (table == null) fill()
    var at = home(code)
    while (table(at) != code && table(at) != 0) at = (at + 1) & (table.length - 1)
    table(at) == code
  }

  def hasOneOf(all: Array[Int]): Boolean = {
    var i = 0
    while (i < all.length && !has(all(i))) i += 1
    i < all.length
  }

  private def fill(): Unit = {
    table = new Array[Int](Integer.highestOneBit(count) * 4)
    var i = 0
    while (i < count) {
      var at = home(codes(i))
      while (table(at) != codes(i) && table(at) != 0) at = (at + 1) & (table.length - 1)
      table(at) = codes(i)
      i += 1
    }
    codes = Array.emptyIntArray
  }

  // The upper bits of a code are as good as the lower ones.
  private def home(code: Int): Int = (code ^ code >>> 16) & (table.length - 1)
}

private[sync] object NewKeys {
  private val Most = 1 << 20

  /** The upper 48 bits of a hash count. It is never zero. */
  private def short(hash: Long): Int = {
    val code = (hash >>> 32).toInt ^ (hash >>> 16).toInt
    if (code == 0) 1 else code
  }
}

/** A hash of a row's key. The upper 48 bits count. Two keys may have the same hash. */
abstract class KeyHash {

  /** @param base see [[io.tailrace.state.RowLayout]] */
  final def of(base: AnyRef, at: Long): Long =
    ofBytes(base, RowLayout.keyAt(at), RowLayout.keyLength(base, at))

  /** The hash of a key that isn't in a row. */
  def ofBytes(base: AnyRef, at: Long, length: Int): Long
}

object KeyHash {

  /** It is never written to disk, so it may change. */
  object XX64 extends KeyHash {
    override def ofBytes(base: AnyRef, at: Long, length: Int): Long =
      XXH64.hashUnsafeBytes(base, at, length, 0L)
  }
}
