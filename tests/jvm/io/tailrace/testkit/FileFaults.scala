package io.tailrace.testkit

import java.io.IOException

import scala.collection.mutable.ArrayBuffer
import scala.util.matching.Regex

import org.apache.hadoop.fs.Path

/** A step that fails: the `nth` one of its kind on a file whose path the pattern finds, and as many after it as `times`
  * says. Counted from when the fault is armed.
  */
final case class FileFault(step: FileStep, file: Regex, nth: Int = 1, times: Int = 1) {
  override def toString: String = s"$step of $file, no. $nth to ${nth + times - 1}"
}

/** As a file system puts it that lost its connection: without the name of the file, which is ours to add. */
final class InjectedFault extends IOException("Connection reset by peer")

/** The faults of one run. */
final class FileFaults(faults: Seq[FileFault]) extends WatchedFiles.Watcher {
  private val reached = Array.fill(faults.size)(0)
  private val hit = new ArrayBuffer[(FileStep, Path)]

  /** The steps that failed, in their order. */
  def fired: Seq[(FileStep, Path)] = synchronized(hit.toSeq)

  override def apply(step: FileStep, path: Path): Unit = synchronized {
    val fails = faults.indices.filter { i =>
      val fault = faults(i)
      val counts = fault.step == step && fault.file.findFirstIn(path.toUri.getPath).isDefined
      if (counts) reached(i) += 1
      counts && reached(i) >= fault.nth && reached(i) < fault.nth + fault.times
    }
    if (fails.nonEmpty) {
      hit += step -> path
      throw new InjectedFault
    }
  }
}

object FileFaults {

  /** Faults while `body` runs. @return what it gives, and the steps that failed */
  def during[T](faults: FileFault*)(body: => T): (T, Seq[(FileStep, Path)]) = {
    val run = new FileFaults(faults)
    val result = WatchedFiles.watchedBy(run)(body)
    (result, run.fired)
  }
}
