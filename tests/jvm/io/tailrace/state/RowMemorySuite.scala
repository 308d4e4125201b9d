package io.tailrace.state

import org.apache.spark.memory.SparkOutOfMemoryError
import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.funsuite.AnyFunSuite

final class RowMemorySuite extends AnyFunSuite {

  test("blocks and index bytes are counted as the task's memory, and given back") {
    val manager = TaskMemory.create(64L << 20)
    val memory = new RowMemory(manager)
    val block = memory.block(10)
    assert(block.size == RowMemory.BlockBytes)
    memory.reserve(1000)
    assert(manager.getMemoryConsumptionForThisTask == RowMemory.BlockBytes + 1000)
    memory.release(block)
    memory.freeMemory(1000)
    assert(manager.getMemoryConsumptionForThisTask == 0)
  }

  test("a block is as large as the row that needs it") {
    val manager = TaskMemory.create(64L << 20)
    val memory = new RowMemory(manager)
    val block = memory.block(3 * RowMemory.BlockBytes)
    assert(block.size >= 3 * RowMemory.BlockBytes)
    memory.release(block)
  }

  test("what Spark doesn't grant is an out-of-memory error, and nothing stays taken") {
    val manager = TaskMemory.create(2L << 20)
    val memory = new RowMemory(manager)
    assertThrows[OutOfMemoryError](memory.reserve(3L << 20))
    assert(manager.getMemoryConsumptionForThisTask == 0)
    assertThrows[SparkOutOfMemoryError](memory.block(3L << 20))
    assert(manager.getMemoryConsumptionForThisTask == 0)
  }
}
