package org.apache.spark.sql.tailrace

import org.apache.spark.SparkConf
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}

/** Task memory without a task: Spark keeps its memory managers to itself. */
object BenchMemory {

  /** Hands out the execution memory of one task that has the JVM to itself. */
  def newTaskMemoryManager(): TaskMemoryManager =
    new TaskMemoryManager(UnifiedMemoryManager(new SparkConf(false), 1), 0L)
}
