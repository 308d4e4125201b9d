package io.tailrace.testkit

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.{BeforeAndAfterEach, Suite}

import io.tailrace.state.{RowBuffer, RowMemory}

/** Task memory and row buffers for a test; fails the test that leaves memory taken. */
trait RowFixture extends BeforeAndAfterEach { self: Suite =>
  private val opened = new ArrayBuffer[RowBuffer]
  private var manager: TaskMemoryManager = _

  protected def taskMemory: Long = 512L << 20

  def usedMemory: Long = manager.getMemoryConsumptionForThisTask

  def newBuffer(): RowBuffer = {
    val buffer = new RowBuffer(new RowMemory(manager))
    opened += buffer
    buffer
  }

  def bufferOf(rows: Iterable[TestRow]): RowBuffer = {
    val buffer = newBuffer()
    rows.foreach(_.appendTo(buffer))
    buffer
  }

  def bufferOf(first: TestRow, more: TestRow*): RowBuffer = bufferOf(first +: more)

  override protected def beforeEach(): Unit = {
    manager = TaskMemory.create(taskMemory)
    super.beforeEach()
  }

  /** Between the examples of a property. */
  def closeBuffers(): Unit = {
    opened.foreach(_.close())
    opened.clear()
  }

  override protected def afterEach(): Unit = {
    closeBuffers()
    val left = usedMemory
    super.afterEach()
    assert(left == 0, "bytes of task memory are still taken")
  }
}
