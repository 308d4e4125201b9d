package io.tailrace.testkit

import org.apache.hadoop.fs.Path

/** Runs a command of another process at a step of the first one, in its driver's thread.
  *
  * @param at the number of the step, from 1
  */
final class OtherProcess(at: Int)(body: => Unit) extends WatchedFiles.Watcher {
  private val driver = Thread.currentThread
  private var runs = false
  var steps = 0

  override def apply(step: FileStep, path: Path): Unit =
    if ((Thread.currentThread eq driver) && !runs && !isUnguarded(path)) {
      steps += 1
      if (steps == at) {
        runs = true
        try body
        finally runs = false
      }
    }

  /** The first one has just looked whether it is alone, and writes: a whole command doesn't fit in there. */
  private def isUnguarded(path: Path): Boolean =
    path.getName == "tailrace-join.json" || path.getParent.getName == "commits"
}
