package io.tailrace.testkit

import org.apache.hadoop.fs.Path

/** A process that dies at a step of its files: no later one is done.
  *
  * @param at the number of the step, among those that change something
  */
final class DeadProcess(at: Int) extends WatchedFiles.Watcher {
  private val changes = Set[FileStep](FileStep.Rename, FileStep.Renamed, FileStep.Delete)

  /** How many there were. */
  var steps = 0

  override def apply(step: FileStep, path: Path): Unit = synchronized {
    if (changes(step)) steps += 1
    if (steps >= at) throw new InjectedFault
  }
}
