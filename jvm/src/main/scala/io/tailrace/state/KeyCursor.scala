package io.tailrace.state

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
    * @param hash of the key, by [[PageFilters.hash]]
    * @return false: no row has the key
    */
  def advanceTo(probe: AnyRef, probeAt: Long, hash: Long): Boolean =
    if (filters == null || isOnPage(probe, probeAt)) {
      opened.advanceTo(probe, probeAt)
      true
    } else {
      asked += 1
      val mayHold = filters.mayHold(probe, probeAt, hash)
      if (mayHold) {
        readPage()
        opened.advanceTo(probe, probeAt)
        if (!filtersPay) dropFilters()
      } else if (filters.isAtEnd) ended = true
      mayHold
    }

  /** True if the key is on the page that has been read, or nowhere: then a walk there costs as little. */
  private def isOnPage(probe: AnyRef, probeAt: Long): Boolean =
    opened != null && opened.isValid && !opened.isPageBefore(probe, probeAt)

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
