package io.tailrace.testkit

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.hadoop.fs.Path

/** Writes of files whose names end so wait until the test lets them go on; then they fail, if `fails`. */
final class HeldWrite(suffix: String, fails: Boolean) extends WatchedFiles.Watcher {
  private val begun = new CountDownLatch(1)
  private val released = new CountDownLatch(1)

  override def apply(step: FileStep, path: Path): Unit =
    if (step == FileStep.Create && path.getName.endsWith(suffix)) {
      begun.countDown()
      require(released.await(60, TimeUnit.SECONDS), "nobody let the write go on")
      if (fails) throw new InjectedFault
    }

  def awaitBegin(): Unit = require(begun.await(60, TimeUnit.SECONDS), s"no write of a $suffix")
  def release(): Unit = released.countDown()
}

object HeldWrite {

  /** Writes wait until `body` says `release`, or ends. */
  def during[T](suffix: String, fails: Boolean = false)(body: HeldWrite => T): T = {
    val held = new HeldWrite(suffix, fails)
    try WatchedFiles.watchedBy(held)(body(held))
    finally held.release()
  }
}
