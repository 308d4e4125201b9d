package org.apache.spark.sql.tailrace

import org.apache.spark.SparkConf
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}

/** Spark's memory of a task without a task: what `TestMemoryManager` of Spark's own test jar is for. */
object TaskMemory {

  /** @param bytes all that the task can get */
  def create(bytes: Long): TaskMemoryManager =
    new TaskMemoryManager(new UnifiedMemoryManager(new SparkConf(false), bytes, 0L, 1), 0L)
}
