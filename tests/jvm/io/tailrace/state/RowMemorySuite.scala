package io.tailrace.state

import org.apache.spark.memory.SparkOutOfMemoryError
import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.funsuite.AnyFunSuite

final class RowMemorySuite extends AnyFunSuite {

  test("pages and index bytes are counted as the task's memory, and given back") {
    val manager = TaskMemory.create(64L << 20)
    val memory = new RowMemory(manager)
    val page = memory.page(10)
    assert(page.size == RowMemory.PageBytes)
    memory.reserve(1000)
    assert(manager.getMemoryConsumptionForThisTask == RowMemory.PageBytes + 1000)
    memory.release(page)
    memory.freeMemory(1000)
    assert(manager.getMemoryConsumptionForThisTask == 0)
  }

  test("a page is as large as the row that needs it") {
    val manager = TaskMemory.create(64L << 20)
    val memory = new RowMemory(manager)
    val page = memory.page(3 * RowMemory.PageBytes)
    assert(page.size >= 3 * RowMemory.PageBytes)
    memory.release(page)
  }

  test("what Spark doesn't grant is an out-of-memory error, and nothing stays taken") {
    val manager = TaskMemory.create(2L << 20)
    val memory = new RowMemory(manager)
    assertThrows[OutOfMemoryError](memory.reserve(3L << 20))
    assert(manager.getMemoryConsumptionForThisTask == 0)
    assertThrows[SparkOutOfMemoryError](memory.page(3L << 20))
    assert(manager.getMemoryConsumptionForThisTask == 0)
  }
}
