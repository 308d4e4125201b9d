package io.tailrace.state

import java.lang.ref.Cleaner

import org.apache.spark.sql.tailrace.SparkMemory

import io.tailrace.common.ProcessPart

/** Memory of an executor for what operators keep from one micro-batch to the next, and which they can do
  * without. Spark counts it among cached data. All partitions share it:
  *
  * {{{
  *   executor's memory for execution and storage 2.2 GiB      -Xmx4g
  *     of which tasks never take                 1.1 GiB      spark.memory.storageFraction
  *     of which operators may keep               570 MiB      half of that: the user caches too
  * }}}
  */
final class KeptMemory(most: Long, spark: Option[SparkMemory] = None) {
  private var used = 0L

  private[state] def isOf(other: Option[SparkMemory]): Boolean = spark.map(_.manager) == other.map(_.manager)

  private[state] def take(bytes: Long): Boolean = synchronized {
    val isGranted = used + bytes <= most && spark.forall(_.take(bytes))
    if (isGranted) used += bytes
    isGranted
  }

  private[state] def giveBack(bytes: Long): Unit = synchronized {
    used -= bytes
    spark.foreach(_.giveBack(bytes))
  }

  /** Bytes that are taken. */
  def bytes: Long = synchronized(used)
}

object KeptMemory {
  private val cleaner = Cleaner.create()

  /** A JVM may have one Spark after another, each with memory of its own. */
  private final class OfSpark {
    private var current = new KeptMemory(Long.MaxValue)

    def now: KeptMemory = synchronized {
      val spark = SparkMemory.here
      if (!current.isOf(spark)) current = new KeptMemory(spark.fold(Long.MaxValue)(_.most / 2), spark)
      current
    }
  }

  private val part = new ProcessPart("retained memory")(new OfSpark)

  /** That of this process. */
  def ofExecutor: KeptMemory = part.here.now

  /** It must not refer to the owner, which would never be given up then. */
  private final class Taken(memory: KeptMemory) extends Runnable {
    private var taken = 0L

    def bytes: Long = synchronized(taken)

    def resize(bytes: Long): Boolean = synchronized {
      val isGranted = bytes <= taken || memory.take(bytes - taken)
      if (bytes < taken) memory.giveBack(taken - bytes)
      if (isGranted) taken = bytes
      isGranted
    }

    override def run(): Unit = resize(0L): Unit
  }

  /** The bytes of one owner. They are given back when the collector finds that nobody has it any more: a task
    * may fail, and a version may be replaced, at any moment.
    */
  final class Share(memory: KeptMemory) {
    private val taken = new Taken(memory)
    cleaner.register(this, taken)

    def bytes: Long = taken.bytes

    /** Takes more, or gives some back. @return false: none is left, and nothing has changed */
    def resize(bytes: Long): Boolean = taken.resize(bytes)
  }
}
