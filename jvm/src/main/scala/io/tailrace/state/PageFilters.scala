package io.tailrace.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform

/** A bloom filter of the keys of each page of a key-sorted section, for those who look for few keys. It is
  * kept as a section of its own behind all others, in which a page of the section is a row
  * (`jvm/docs/formats.md`):
  *
  * {{{
  *   right-key-sorted   A B C | D E F | F G I             three pages
  *   right-key-pages    C: A, {A B C}   F: D, {D E F}   I: F, {F G I}
  *                      └─ last row: time, seq and key   └─ first row, which a cursor seeks   └─ filter
  * }}}
  *
  * The first page whose last key isn't before a key is the only one that the key's rows can begin on.
  */
object PageFilters {

  /** A page that none of 70 keys is on is read for one of them in 16 releases. */
  private[state] val BitsPerKey = 16
  private val Probes = 6

  /** A smaller section has none: it costs as much to look into its filters as to read it. */
  private[state] val LeastPages = 8

  /** Filters of a run wait in memory while its sections are written. A run that has more gets none. */
  private val MostBytes = 64L << 20

  /** The hash of a row's key, by which filters know it. */
  def hash(base: AnyRef, at: Long): Long =
    XXH64.hashUnsafeBytes(base, RowLayout.keyAt(at), RowLayout.keyLength(base, at), 0L)

  /** The number of a hash's `probe`-th bit in a filter. */
  @inline private def bitOf(hash: Long, probe: Int, words: Int): Long =
    (((hash + ((hash >>> 32) | 1) * probe) & 0xffffffffL) * (words * 64L)) >>> 32

  private def setBits(base: AnyRef, filterAt: Long, words: Int, hash: Long): Unit = {
    var probe = 0
    while (probe < Probes) {
      val bit = bitOf(hash, probe, words)
      val word = filterAt + 8 * (bit >>> 6)
      Platform.putLong(base, word, Platform.getLong(base, word) | (1L << bit))
      probe += 1
    }
  }

  private def hasBits(base: AnyRef, filterAt: Long, words: Int, hash: Long): Boolean = {
    var probe = 0
    var has = true
    while (has && probe < Probes) {
      val bit = bitOf(hash, probe, words)
      has = (Platform.getLong(base, filterAt + 8 * (bit >>> 6)) & (1L << bit)) != 0
      probe += 1
    }
    has
  }

  /** Makes the filters of the pages of a run, and keeps them until its sections are written. */
  private[state] final class Builder {
    private val sections = new ArrayBuffer[(StoreKind, Long, Seq[Array[Byte]])]
    private var pages = new ArrayBuffer[Array[Byte]]
    private var bytes = 0L
    private var hashes = new Array[Long](512)

    /** Adds a page of `rows` rows, the last of them at `lastAt`. */
    def add(base: AnyRef, firstAt: Long, lastAt: Long, rows: Int): Unit = if (bytes <= MostBytes) {
      if (hashes.length < rows) hashes = new Array[Long](rows * 2)
      val keys = hashesOf(base, firstAt, rows)
      val words = (keys * BitsPerKey + 63) / 64
      val lastLength = RowLayout.keyLength(base, lastAt)
      val firstLength = RowLayout.length(RowLayout.keyLength(base, firstAt), 0)
      val valueLength = firstLength.toInt + 8 * words
      val row = new Array[Byte](RowLayout.length(lastLength, valueLength).toInt)
      val to = Platform.BYTE_ARRAY_OFFSET.toLong
      RowLayout.copyKey(base, lastAt, row, to)
      RowLayout.writeValueLength(row, to, valueLength)
      val value = RowLayout.valueAt(row, to)
      RowLayout.copyKey(base, firstAt, row, value)
      var i = 0
      while (i < keys) {
        setBits(row, value + firstLength, words, hashes(i))
        i += 1
      }
      pages += row
      bytes += row.length
    }

    /** @return how many distinct keys there are; [[hashes]] begins with their hashes */
    private def hashesOf(base: AnyRef, firstAt: Long, rows: Int): Int = {
      var keys = 0
      var at = firstAt
      var row = 0
      while (row < rows) {
        val next = hash(base, at)
        // Equal keys are neighbours.
        if (keys == 0 || hashes(keys - 1) != next) {
          hashes(keys) = next
          keys += 1
        }
        at += RowLayout.length(base, at)
        row += 1
      }
      keys
    }

    /** The section is complete; its filters are kept as a section of `kind`. */
    def endSection(kind: StoreKind, bucket: Long): Unit = {
      if (pages.size >= LeastPages) sections += ((kind, bucket, pages.toSeq))
      pages = new ArrayBuffer[Array[Byte]]
    }

    /** Kind, bucket and rows of each section, in the order of a run. */
    def result: Seq[(StoreKind, Long, Seq[Array[Byte]])] = if (bytes > MostBytes) Nil else sections.toSeq
  }

  /** Opens the filters of a section, if it has some. */
  def of(live: LiveSection): Option[PageFilters] = {
    val section = live.section
    section.kind.pages.filter(_ => section.bytes > LeastPages * PageBuffer.Capacity.toLong).flatMap { kind =>
      val cursor = new RunCursor(live.local, kind, section.bucket)
      try {
        cursor.first()
        if (cursor.isValid) Some(new PageFilters(live.local, cursor))
        else {
          cursor.close()
          None
        }
      } catch {
        case e: Throwable =>
          cursor.close()
          throw e
      }
    }
  }
}

/** The filters of a section's pages, in the order of the keys that are asked for. */
final class PageFilters private (local: LocalRun, pages: RunCursor) extends AutoCloseable {
  private var firstLength = 0L
  private var words = 0
  private var seen = 0
  private var checkedAt = -1L

  /** Goes on to the only page on which rows with the key can begin. Keys must ascend.
    *
    * @return whether the page may hold the key
    */
  def mayHold(key: SoughtKey): Boolean = {
    pages.advanceTo(key.base, key.at)
    pages.isValid && {
      if (pages.seq != checkedAt) nextPage()
      PageFilters.hasBits(pages.base, firstAt + firstLength, words, key.hash)
    }
  }

  private def nextPage(): Unit = {
    checkedAt = pages.seq
    seen += 1
    val valueLength = RowLayout.valueLength(pages.base, pages.at)
    val keyLength = if (valueLength < RowLayout.HeaderLength) -1 else RowLayout.keyLength(base, firstAt)
    firstLength = RowLayout.length(keyLength, 0)
    words = ((valueLength - firstLength) / 8).toInt
    if (keyLength < 0 || words < 1)
      throw local.corrupt("a page's filter isn't as long as it says")
  }

  /** True if all keys that come next are behind the section. */
  def isAtEnd: Boolean = !pages.isValid

  /** The page's first row, without its value: see [[RowLayout]]. */
  def base: AnyRef = pages.base
  def firstAt: Long = RowLayout.valueAt(pages.base, pages.at)

  /** The number of pages it has been asked about. */
  def pagesSeen: Int = seen

  override def close(): Unit = pages.close()
}

/** The key that sections are asked for, which is that of a row. Its hash is made for the first section that has filters near
  * the key: most keys meet none, and then the row isn't even read.
  */
final class SoughtKey {
  private var row: AnyRef = _
  private var rowAt = 0L
  private var isHashed = false
  private var hashed = 0L

  /** Seeks the key of another row. */
  def set(of: AnyRef, ofAt: Long): Unit = {
    row = of
    rowAt = ofAt
    isHashed = false
  }

  def base: AnyRef = row
  def at: Long = rowAt

  /** By [[PageFilters.hash]]. */
  def hash: Long = {
    if (!isHashed) {
      hashed = PageFilters.hash(row, rowAt)
      isHashed = true
    }
    hashed
  }
}

/** Goes through a key-sorted section from one requested key to the next. Where the section has
  * [[PageFilters]], it reads only the pages that may hold such a key:
  *
  * {{{
  *   keys asked for      B          E        H
  *   filters             no         yes      no
  *   pages            A C ... C | D E ... | F I ... I
  *                     not read    read     not read
  * }}}
  */
final class KeyCursor(val live: LiveSection) extends AutoCloseable {
  import KeyCursor._

  private var filters: PageFilters = PageFilters.of(live).orNull
  private var opened: RunCursor = _
  private var asked = 0L
  private var pagesRead = 0L
  // Where the cursor isn't at a row, rows may be anywhere behind the last key.
  private var lowest = 0L
  private var ended = false

  if (filters == null)
    try {
      opened = live.cursor()
      opened.first()
      settle()
    } catch {
      case e: Throwable =>
        close()
        throw e
    }

  /** At the first row with the key, or a greater one, when [[advanceTo]] has said true. */
  def rows: RunCursor = opened

  /** True if there is no row any more for the keys that come next. */
  def isAtEnd: Boolean = ended

  /** All rows that are left have this [[RowLayout.keyPrefix]] or a greater one. */
  def keyPrefix: Long = lowest

  /** Goes on to a key. Keys must ascend.
    *
    * @return false: no row has the key
    */
  def advanceTo(key: SoughtKey): Boolean =
    if (filters == null || isOnPage(key)) {
      opened.advanceTo(key.base, key.at)
      true
    } else {
      asked += 1
      val mayHold = filters.mayHold(key)
      if (mayHold) {
        readPage()
        opened.advanceTo(key.base, key.at)
        if (!filtersPay) dropFilters()
      } else if (filters.isAtEnd) ended = true
      mayHold
    }

  /** True if the key is on the page that has been read, or nowhere: then a walk there costs as little. */
  private def isOnPage(key: SoughtKey): Boolean =
    opened != null && opened.isValid && !opened.isPageBefore(key.base, key.at)

  /** True if the filters haven't cost more than the pages would have that they have saved. */
  private def filtersPay: Boolean =
    asked / AskedAPage + pagesRead / ReadAPage <= filters.pagesSeen - pagesRead + Trial

  /** To be called after rows were read, and before the next key is sought. */
  def settle(): Unit = {
    ended = !opened.isValid
    if (!ended) lowest = opened.keyPrefix
  }

  private def readPage(): Unit = {
    if (opened == null) opened = live.cursor()
    opened.seekPage(filters.base, filters.firstAt)
    pagesRead += 1
    // Rows of the key would be lost silently.
    if (!opened.isValid || opened.seq != RowLayout.seq(filters.base, filters.firstAt))
      throw live.local.corrupt("a filter is of a page that isn't there")
  }

  private def dropFilters(): Unit = {
    filters.close()
    filters = null
  }

  override def close(): Unit = {
    if (filters != null) dropFilters()
    if (opened != null) opened.close()
  }
}

private object KeyCursor {
  // Reading a page costs as much as checking this many filters.
  private val AskedAPage = 256

  // And as much as this many seeks, without reading the pages.
  private val ReadAPage = 4

  /** So many pages filters may cost before they are left aside. */
  private val Trial = 2
}
