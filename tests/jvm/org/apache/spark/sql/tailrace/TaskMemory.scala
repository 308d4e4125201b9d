package org.apache.spark.sql.tailrace

import org.apache.spark.SparkConf
import org.apache.spark.memory.{MemoryConsumer, TaskMemoryManager, UnifiedMemoryManager}

/** The memory manager of a task, without a task. */
object TaskMemory {

  /** @param bytes the most that the task can get */
  def create(bytes: Long): TaskMemoryManager = new TaskMemoryManager(manager(bytes), 0L)

  /** @param now the bytes that the task can have at a moment, as when other tasks begin and end */
  def changing(bytes: Long)(now: () => Long): TaskMemoryManager =
    new TaskMemoryManager(manager(bytes), 0L) {
      override def acquireExecutionMemory(required: Long, consumer: MemoryConsumer): Long = {
        val left = Math.max(0L, now() - getMemoryConsumptionForThisTask)
        if (left == 0) 0L else super.acquireExecutionMemory(Math.min(required, left), consumer)
      }
    }

  private def manager(bytes: Long) = new UnifiedMemoryManager(new SparkConf(false), bytes, 0L, 1)
}
