package io.tailrace.common

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/** State that a process keeps for all queries together. `ProcessStateSuite` finds any that isn't here.
  *
  * Each part is made at its first use, and lives as long as the process. Nothing closes it: memory goes with the process,
  * threads are daemons, and the files are in directories that Spark deletes, or that the next executor takes over.
  *
  * {{{
  *   part              declared in                         bound
  *   local disk        state/LocalDirectory                localRunBytes of the query whose partition came last
  *   block cache       state/SharedReader                  the largest blockCacheBytes that a query has asked for
  *   retained memory   state/KeptMemory                    a part of Spark's memory; another Spark in the JVM begins anew
  *   spare pages       state/RunPage                       64 pages
  *   spare blocks      state/RowBuffer                     64 MiB, and a sixteenth of the heap
  *   sweep             state/LocalDirectory                when old directories were deleted last, for an hour
  *   compaction        state/Compaction                    a thread for four cores
  *   uploads           state/OwnStore                      a thread for each file that is being copied
  *   downloads         state/RunCopy                       64 threads
  *   checks            state/RunCopy                       a thread for two cores
  *   copied parts      state/RunCopy                       a number
  *   marks             replay/MarkLog                      the newest of 64 filters; the driver drops those of ended runs
  *   checked buckets   checkpoint/ObjectStoreFileManager   one entry for each bucket
  * }}}
  *
  * What belongs to one run of a query is in `io.tailrace.driver.DriverRuns`.
  */
private[tailrace] object ExecutorProcess {
  private val parts = new ConcurrentHashMap[ProcessPart[_], AnyRef]

  private[common] def of[T <: AnyRef](part: ProcessPart[T])(make: => T): T =
    Option(parts.get(part)).getOrElse(makeOnce(part)(make)).asInstanceOf[T]

  // Not by `computeIfAbsent`: a part may use others when it is made.
  private def makeOnce(part: ProcessPart[_])(make: => AnyRef): AnyRef = synchronized {
    Option(parts.get(part)).getOrElse {
      val made = make
      parts.put(part, made)
      made
    }
  }

  /** Names of the parts that have been made. */
  def names: Set[String] = parts.keySet.asScala.map(_.name).toSet
}

/** A part of [[ExecutorProcess]], as the code that uses it declares it. */
private[tailrace] final class ProcessPart[T <: AnyRef](val name: String)(make: => T) {

  /** The part in this process. */
  def here: T = ExecutorProcess.of(this)(make)
}
