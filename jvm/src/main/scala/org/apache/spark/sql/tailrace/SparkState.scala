package org.apache.spark.sql.tailrace

import java.io.File
import java.util.concurrent.ExecutorService

import org.apache.hadoop.conf.Configuration
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.util.{CompletionIterator, ThreadUtils, Utils}
import org.apache.spark.{SparkEnv, TaskContext}

/** Spark's RocksDB provider, for a class outside of Spark's packages. */
abstract class SparkRocksDBProvider extends RocksDBStateStoreProvider

/** Spark's internals that the state engine uses. */
object SparkState {

  /** A new directory on this executor's local disks; Spark deletes it when the JVM ends. */
  def localDirectory(prefix: String): File = Utils.createExecutorLocalTempDir(SparkEnv.get.conf, prefix)

  /** Tells the driver that a version was written; without it Spark's commit validation fails the batch. */
  def reportCommit(version: Long, id: StateStoreId, hadoopConf: Configuration): Unit =
    StateStore.reportCommitToCoordinator(version, id, hadoopConf)

  /** The same rows; `body` runs once, when the last one has been taken. */
  def onCompletion[T](rows: Iterator[T])(body: => Unit): Iterator[T] =
    CompletionIterator[T, Iterator[T]](rows, body)

  /** As many daemon threads as there is work, which end when there is none. */
  def threads(name: String): ExecutorService = ThreadUtils.newDaemonCachedThreadPool(name)

  /** One daemon thread. */
  def oneThread(name: String): ExecutorService = ThreadUtils.newDaemonSingleThreadExecutor(name)

  /** Throws if the task has been told to end. */
  def endIfCancelled(context: TaskContext): Unit = context.killTaskIfInterrupted()

  def taskMemoryManager(context: TaskContext): TaskMemoryManager = context.taskMemoryManager()
}
