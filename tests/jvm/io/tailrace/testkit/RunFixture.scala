package io.tailrace.testkit

import java.io.File

import scala.collection.mutable.ArrayBuffer

import org.scalatest.Suite

import io.tailrace.state.{
  LiveSection,
  LocalRun,
  RowBuffer,
  RunCursor,
  RunWriter,
  Section,
  SortedRows,
  StoreKind
}

/** Runs in the test's directory, without a store. */
trait RunFixture extends TempDirectory with RowFixture { self: Suite =>
  private val opened = new ArrayBuffer[LocalRun]
  private val cursors = new ArrayBuffer[RunCursor]

  /** @return the run's sections, open for reading until the test ends */
  def newRun(bucketWidth: Long, stores: (StoreKind, RowBuffer)*): Seq[LiveSection] = {
    val file = new File(directory, s"${opened.size}.run")
    val writer = new RunWriter(file)
    try {
      stores.foreach { case (kind, rows) => SortedRows.all(kind, rows, bucketWidth).writeTo(writer) }
      writer.finish()
      opening(file, writer.sections)
    } finally writer.close()
  }

  /** A run with these rows as they are, which must be in order. */
  def newSection(kind: StoreKind, rows: Seq[TestRow], bucket: Long = 0): LiveSection = {
    val file = new File(directory, s"${opened.size}.run")
    val writer = new RunWriter(file)
    try {
      writer.begin(kind, bucket)
      rows.foreach(row => writer.append(row.layout, TestRow.At))
      writer.end()
      writer.finish()
      opening(file, writer.sections).head
    } finally writer.close()
  }

  /** Opens a finished file until the test ends. */
  def opening(file: File, sections: Seq[Section]): Seq[LiveSection] = {
    val local = new LocalRun(file.getName, file)
    local.acquire()
    opened += local
    sections.map(new LiveSection(local, _))
  }

  /** Closed when the test ends. */
  def cursorOf(live: LiveSection): RunCursor = {
    val cursor = live.cursor()
    cursors += cursor
    cursor
  }

  /** Between the examples of a property. */
  def closeRuns(): Unit = {
    cursors.foreach(_.close())
    cursors.clear()
    opened.foreach(_.release())
    opened.clear()
  }

  override protected def afterEach(): Unit = {
    closeRuns()
    super.afterEach()
  }
}
