package io.tailrace.state

import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.RowMemoryExhausted

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

  test("memory that Spark doesn't grant is an error that says how much, and none stays taken") {
    val manager = TaskMemory.create(2L << 20)
    val memory = new RowMemory(manager)
    val error = intercept[RowMemoryExhausted](memory.reserve(3L << 20))
    assert(error.getCondition == "TAILRACE_MEMORY_EXHAUSTED")
    assert(error.getMessageParameters.get("needed") == (3L << 20).toString)
    assert(manager.getMemoryConsumptionForThisTask == 0)
    assertThrows[RowMemoryExhausted](memory.block(3L << 20))
    assert(manager.getMemoryConsumptionForThisTask == 0)
  }

  test("the peak is the most memory that was in use at a time") {
    val memory = new RowMemory(TaskMemory.create(64L << 20))
    val blocks = Seq.fill(3)(memory.block(10))
    memory.reserve(100)
    blocks.foreach(memory.release)
    memory.freeMemory(100)
    memory.release(memory.block(10))
    assert(memory.peakBytes == 3 * RowMemory.BlockBytes + 100)
  }
}
