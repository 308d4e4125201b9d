package org.apache.spark.sql.tailrace

import java.io.File
import java.util.UUID
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{Executor, ExecutorService, PriorityBlockingQueue, ThreadPoolExecutor, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.internal.config.MEMORY_STORAGE_FRACTION
import org.apache.spark.memory.{MemoryManager, MemoryMode, TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.storage.TempLocalBlockId
import org.apache.spark.util.{ThreadUtils, Utils}
import org.apache.spark.{SparkEnv, TaskContext}

/** Spark's internals that the state engine uses. */
object SparkState {

  /** A new directory on this executor's local disks; Spark deletes it when the JVM ends. */
  def localDirectory(prefix: String): File = Utils.createExecutorLocalTempDir(SparkEnv.get.conf, prefix)

  /** A new directory for this user alone, in one that is there. It stays when the JVM ends. */
  def directoryIn(parent: File, prefix: String): File = Utils.createDirectory(parent.getPath, prefix)

  /** Tells the driver that a version was written; without it Spark's commit validation fails the batch. */
  def reportCommit(version: Long, id: StateStoreId, hadoopConf: Configuration): Unit =
    StateStore.reportCommitToCoordinator(version, id, hadoopConf)

  /** A cached pool of daemon threads: one for each piece of work, and they end when there is none. */
  def threads(name: String): ExecutorService = ThreadUtils.newDaemonCachedThreadPool(name)

  /** A fixed number of daemon threads. */
  def threads(name: String, number: Int): ExecutorService =
    ThreadUtils.newDaemonFixedThreadPool(number, name)

  /** At most this number of daemon threads. They take the smallest of the waiting pieces of work first, which must
    * be comparable.
    */
  def inOrder(name: String, most: Int): Executor = {
    val factory = ThreadUtils.namedThreadFactory(name)
    val waiting = new PriorityBlockingQueue[Runnable]
    val pool = new ThreadPoolExecutor(most, most, 60, TimeUnit.SECONDS, waiting, factory)
    pool.allowCoreThreadTimeOut(true)
    pool
  }

  /** Works on items side by side. When it returns or throws, no thread is running.
    *
    * {{{
    *   items 0 1 2 3, two threads:   0 ─── 2 fails       3 isn't begun; 1 ends; then 2's error is thrown
    *                                 1 ────────── ends
    * }}}
    *
    * @param most the number of threads, at most
    * @throws java.lang.InterruptedException if the caller is interrupted, and so its threads
    */
  def sideBySide[A](name: String, most: Int, items: Seq[A])(work: A => Unit): Unit =
    if (items.sizeIs <= 1) items.foreach(work)
    else {
      val threads = ThreadUtils.newDaemonFixedThreadPool(Math.min(items.size, most), name)
      val failed = new AtomicReference[Throwable]
      def run(item: A): Unit =
        try if (failed.get == null) work(item)
        catch { case e: Throwable => failed.compareAndSet(null, e): Unit }
      try items.foreach(item => threads.execute(() => run(item)))
      catch { case e: Throwable => failed.compareAndSet(null, e): Unit }
      threads.shutdown()
      while (!threads.isTerminated)
        try threads.awaitTermination(1, TimeUnit.DAYS): Unit
        catch {
          case e: InterruptedException =>
            failed.compareAndSet(null, e)
            threads.shutdownNow(): Unit
        }
      Option(failed.get).foreach(throw _)
    }

  /** True if the task of this thread isn't the first one of its partition and batch. */
  def isRetry: Boolean = {
    val task = TaskContext.get()
    task != null && (task.attemptNumber() > 0 || task.stageAttemptNumber() > 0)
  }

  /** Throws if the task has been cancelled. */
  def endIfCancelled(context: TaskContext): Unit = context.killTaskIfInterrupted()

  def taskMemoryManager(context: TaskContext): TaskMemoryManager = context.taskMemoryManager()
}

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
