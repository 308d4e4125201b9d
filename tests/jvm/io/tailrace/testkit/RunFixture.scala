package io.tailrace.testkit

import java.io.File

import scala.collection.mutable.ArrayBuffer

import org.scalatest.Suite

import io.tailrace.state._

/** Runs in the test's directory, without a store. */
trait RunFixture extends TempDirectory with RowFixture { self: Suite =>
  private val opened = new ArrayBuffer[LocalRun]
  private val cursors = new ArrayBuffer[RunCursor]

  /** @return the run's sections, open for reading until the test ends */
  def newRun(bucketWidth: Long, stores: (StoreKind, RowBuffer)*): Seq[LiveSection] = {
    val file = new File(directory, s"${opened.size}.run")
    val writer = new RunWriter(file, bucketWidth)
    try {
      stores.foreach { case (kind, rows) => writer.write(kind, rows) }
      writer.finish()
      val local = new LocalRun(file.getName, file)
      local.acquire()
      opened += local
      writer.sections.map(new LiveSection(local, _))
    } finally writer.close()
  }

  /** Closed when the test ends. */
  def cursorOf(live: LiveSection): RunCursor = {
    val cursor = live.cursor()
    cursors += cursor
    cursor
  }

  override protected def afterEach(): Unit = {
    cursors.foreach(_.close())
    cursors.clear()
    opened.foreach(_.release())
    opened.clear()
    super.afterEach()
  }
}
