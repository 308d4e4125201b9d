package org.apache.spark.sql.tailrace

import java.util.UUID

import org.apache.spark.SparkEnv
import org.apache.spark.internal.config.MEMORY_STORAGE_FRACTION
import org.apache.spark.memory.{MemoryManager, MemoryMode, UnifiedMemoryManager}
import org.apache.spark.storage.TempLocalBlockId

/** Heap of a process that Spark counts as it counts cached data: it outlives a task. */
final class SparkMemory private (val manager: MemoryManager) {

  /** The bytes of it that tasks never take from cached data. */
  def most: Long = {
    val heap = manager match {
      case unified: UnifiedMemoryManager => unified.maxHeapMemory
      case other => other.maxOnHeapStorageMemory
    }
    (heap * SparkEnv.get.conf.get(MEMORY_STORAGE_FRACTION)).toLong
  }

  /** Takes all of the bytes, or none. Cached data may be dropped for them. */
  def take(bytes: Long): Boolean =
    manager.acquireStorageMemory(TempLocalBlockId(UUID.randomUUID), bytes, MemoryMode.ON_HEAP)

  def giveBack(bytes: Long): Unit = manager.releaseStorageMemory(bytes, MemoryMode.ON_HEAP)
}

object SparkMemory {

  /** That of this process; none where no Spark runs. */
  def here: Option[SparkMemory] = Option(SparkEnv.get).map(env => new SparkMemory(env.memoryManager))
}
