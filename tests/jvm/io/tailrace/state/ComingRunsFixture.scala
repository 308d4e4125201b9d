package io.tailrace.state

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.{FileStep, TestRow, WatchedFiles}

/** The state of a partition whose runs come from the checkpoint in the background. */
abstract class ComingRunsFixture extends OwnStoreFixture with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(10, Millis))

  protected def background(localBytes: Long = TailraceConf.LocalRunBytes.default): Configuration = {
    LocalDisk.ofExecutor.configure(localBytes)
    withLittleDisk(withoutInlineRuns(WatchedFiles.configure(hadoopConf())), localBytes)
  }

  protected def newBackground(): OwnStore =
    new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), background())

  override protected def afterEach(): Unit = {
    LocalDisk.ofExecutor.configure(TailraceConf.LocalRunBytes.default)
    super.afterEach()
  }

  protected def runs: Seq[String] =
    checkpointFiles.filter(_.endsWith(".run")).toSeq.sortBy(_.takeWhile(_ != '-').toInt)

  /** Versions of an executor that has ended. */
  protected def written(batches: Int): Seq[TestRow] = {
    val owner = newBackground()
    val rows = (0L until batches.toLong).map(step(owner, _))
    owner.close()
    rows
  }

  /** Holds each reader of some runs until `body` has called the function. */
  protected def holding[T](names: String*)(body: (() => Unit) => T): T = {
    val goOn = new CountDownLatch(1)
    val holder: WatchedFiles.Watcher = (step, path) =>
      if (step == FileStep.Open && names.contains(path.getName)) assert(goOn.await(60, TimeUnit.SECONDS))
    WatchedFiles.watchedBy(holder) {
      try body(() => goOn.countDown())
      finally goOn.countDown()
    }
  }

  protected def inThread(body: => Unit): Thread = {
    val thread = new Thread(() => body)
    thread.start()
    thread
  }
}
