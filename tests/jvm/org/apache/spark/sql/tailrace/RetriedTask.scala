package org.apache.spark.sql.tailrace

import java.util.Properties

import org.apache.spark.{TaskContext, TaskContextImpl}

/** A thread that is a task's second attempt. */
object RetriedTask {
  def during[T](body: => T): T = {
    val context = new TaskContextImpl(
      stageId = 0,
      stageAttemptNumber = 0,
      partitionId = 0,
      taskAttemptId = 1,
      attemptNumber = 1,
      numPartitions = 1,
      taskMemoryManager = null,
      localProperties = new Properties,
      metricsSystem = null
    )
    TaskContext.setTaskContext(context)
    try body
    finally TaskContext.unset()
  }
}
