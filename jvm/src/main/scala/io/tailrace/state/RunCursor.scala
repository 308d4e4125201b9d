package io.tailrace.state

import java.nio.ByteBuffer

import org.apache.spark.unsafe.Platform
import org.rocksdb.RocksDBException

import io.tailrace.common.Errors

/** Walks over one section of a run, in its order. Not positioned at first: call `first` or a seek. `isValid` false means
  * the end of the section; a read error is thrown, never taken for the end.
  */
final class RunCursor(local: LocalRun, section: Section) extends AutoCloseable {
  private val kind = section.kind
  private val entries = local.iterator()
  private var keyBuffer = ByteBuffer.allocateDirect(256)
  private var valueBuffer = ByteBuffer.allocateDirect(1024)
  private var seekBuffer = ByteBuffer.allocateDirect(256)

  private var valid = false
  private var entryLength = 0
  private var entryTime = 0L
  private var entryPrefix = 0L
  private var key = new Array[Byte](64)
  private var value = new Array[Byte](1024)

  def isValid: Boolean = valid
  def time: Long = entryTime
  def seq: Long = RunKey.seq(keyBuffer, kind, entryLength)
  def keyLength: Int = entryLength - RunKey.FixedLength
  def keyPrefix: Long = entryPrefix

  /** The encoded key of the entry, in a shared array of which `keyLength` bytes count. */
  def keyBytes: Array[Byte] = {
    if (key.length < keyLength) key = new Array[Byte](keyLength * 2)
    keyBuffer.get(RunKey.keyOffset(kind), key, 0, keyLength)
    key
  }

  def first(): Unit = {
    RunKey.writePrefix(seekBuffer, kind, section.bucket)
    entries.seek(seekBuffer)
    load()
  }

  /** To the first entry at `time` or later; of a time-sorted section. */
  def seekTime(time: Long): Unit = {
    RunKey.writeTimeBound(seekBuffer, kind, section.bucket, time)
    entries.seek(seekBuffer)
    load()
  }

  /** To the first entry with this key or a greater one; of a key-sorted section. */
  def seekKey(key: Array[Byte], keyLength: Int): Unit = {
    if (seekBuffer.capacity < RunKey.FixedLength + keyLength) {
      seekBuffer = ByteBuffer.allocateDirect(2 * (RunKey.FixedLength + keyLength))
    }
    RunKey.writePrefix(seekBuffer, kind, section.bucket)
    seekBuffer.limit(RunKey.PrefixLength + keyLength)
    seekBuffer.put(RunKey.PrefixLength, key, 0, keyLength)
    entries.seek(seekBuffer)
    load()
  }

  def next(): Unit = {
    entries.next()
    load()
  }

  /** Appends the entry to `rows` with its own key, time and sequence number. @return its row number */
  def appendTo(rows: RowBuffer): Int = {
    val length = readValue()
    rows.append(keyBytes, keyLength, time, seq, value, Platform.BYTE_ARRAY_OFFSET.toLong, length)
  }

  /** Appends the entry to `rows` without its key. @return its row number */
  def appendValueTo(rows: RowBuffer): Int = {
    val length = readValue()
    rows.append(key, 0, time, seq, value, Platform.BYTE_ARRAY_OFFSET.toLong, length)
  }

  /** A copy of the entry's value. */
  def valueBytes: Array[Byte] = {
    val length = readValue()
    java.util.Arrays.copyOf(value, length)
  }

  private def readValue(): Int = {
    var length = { valueBuffer.clear(); entries.value(valueBuffer) }
    if (length > valueBuffer.capacity) {
      valueBuffer = ByteBuffer.allocateDirect(length * 2)
      length = entries.value(valueBuffer)
    }
    if (value.length < length) value = new Array[Byte](length * 2)
    valueBuffer.get(0, value, 0, length)
    length
  }

  private def load(): Unit = {
    valid = entries.isValid
    if (valid) {
      keyBuffer.clear()
      entryLength = entries.key(keyBuffer)
      if (entryLength > keyBuffer.capacity) {
        keyBuffer = ByteBuffer.allocateDirect(entryLength * 2)
        entryLength = entries.key(keyBuffer)
      }
      keyBuffer.clear()
      valid = RunKey.isIn(keyBuffer, kind, section.bucket)
      if (valid) {
        entryTime = RunKey.time(keyBuffer, kind, entryLength)
        entryPrefix = prefixOfKey()
      }
    } else
      try entries.status()
      catch {
        case e: RocksDBException => throw Errors.stateFileCorrupt(local.path, "a block can't be read", e)
      }
  }

  private def prefixOfKey(): Long = {
    val at = RunKey.keyOffset(kind)
    val length = keyLength
    if (length >= 8) keyBuffer.getLong(at)
    else {
      var prefix = 0L
      var i = 0
      while (i < 8) {
        prefix = (prefix << 8) | (if (i < length) keyBuffer.get(at + i) & 0xffL else 0L)
        i += 1
      }
      prefix
    }
  }

  override def close(): Unit = entries.close()
}
