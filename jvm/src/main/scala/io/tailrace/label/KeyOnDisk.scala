package io.tailrace.label

import java.io.File

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.state.{LiveSection, LocalRun, RowBuffer, RowMemory, RunWriter, Section, StoreKind}

/** The right rows of one key in a local file, by time, for a join of batch DataFrames whose windows have no room in
  * memory. Each left row reads its window.
  */
private[label] final class KeyOnDisk private (directory: File, local: LocalRun, section: Section)
    extends AutoCloseable {
  private val cursor = new LiveSection(local, section).cursor()
  private var upper = 0L
  private var matching = false
  private var closed = false

  /** Moves to the matches of the next left row. */
  def slideTo(lower: Long, to: Long): Unit = {
    upper = to
    matching = true
    cursor.seekTime(lower)
  }

  /** The left row matches nothing. */
  def endMatches(): Unit = matching = false

  def hasMatch: Boolean = matching && cursor.isValid && cursor.time <= upper

  /** @return `row`, pointed to the next match; valid until the next call */
  def next(row: UnsafeRow): UnsafeRow = {
    // A copy: the next move may overwrite the page that holds the row.
    val value = cursor.valueBytes
    row.pointTo(value, value.length)
    cursor.next()
    row
  }

  override def close(): Unit = if (!closed) {
    closed = true
    cursor.close()
    local.release()
    directory.delete()
    ()
  }
}

private[label] object KeyOnDisk {
  // Any kind whose sections are in the order of time.
  private val Kind = StoreKind.LeftTimeSorted

  /** @param first the rows that are in memory already, which are released
    * @param rest  all other rows, in the order of time, none before the first ones
    */
  def of(first: Candidates, rest: KeyedRows, memory: RowMemory): KeyOnDisk = {
    val directory = SparkState.localDirectory("tailrace-key")
    val local = new LocalRun("key", new File(directory, "key.run"))
    local.acquire()
    try {
      val writer = new RunWriter(local.file)
      try {
        writer.begin(Kind, 0)
        write(first, rest, memory, writer)
        writer.end()
        writer.finish()
        new KeyOnDisk(directory, local, writer.sections.head)
      } finally writer.close()
    } catch {
      case e: Throwable =>
        local.release()
        throw e
    }
  }

  private def write(first: Candidates, rest: KeyedRows, memory: RowMemory, writer: RunWriter): Unit = {
    val row = new RowBuffer(memory)
    val one = new Candidates(memory)
    var seq = 0L
    def writeOne(rows: Candidates, position: Int): Unit = {
      row.clear()
      row.append(
        Candidates.NoKey,
        0,
        rows.time(position),
        seq,
        rows.base(position),
        rows.valueOffset(position),
        rows.valueLength(position)
      )
      seq += 1
      writer.append(row.base(0), row.at(0))
    }
    try {
      (0 until first.size).foreach(writeOne(first, _))
      first.release()
      while (!rest.isEmpty) {
        one.clear()
        rest.addTo(one)
        writeOne(one, 0)
        rest.advance()
      }
    } finally {
      row.close()
      one.close()
    }
  }
}
