package org.apache.spark.sql.tailrace

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

final class SparkStateSuite extends AnyFunSuite {

  test("work side by side is done in at most so many threads, each item once") {
    val (running, most) = (new AtomicInteger, new AtomicInteger)
    val done = new ConcurrentLinkedQueue[Int]
    SparkState.sideBySide("side", 3, 1 to 100) { item =>
      most.accumulateAndGet(running.incrementAndGet(), Math.max(_, _))
      Thread.sleep(1)
      done.add(item)
      running.decrementAndGet(): Unit
    }
    assert(done.asScala.toSeq.sorted == (1 to 100) && most.get <= 3)
  }

  test("an error is thrown when the work that has begun is done, and the rest isn't begun") {
    val (failed, begun, done) = (new CountDownLatch(1), new AtomicInteger, new AtomicInteger)
    val error = intercept[IllegalStateException] {
      SparkState.sideBySide("side", 2, 1 to 100) { item =>
        begun.incrementAndGet()
        if (item == 1) {
          failed.countDown()
          throw new IllegalStateException("first")
        }
        failed.await()
        Thread.sleep(100)
        done.incrementAndGet(): Unit
      }
    }
    assert(error.getMessage == "first" && done.get == begun.get - 1 && begun.get <= 3)
  }

  test("an interrupted caller interrupts the work, and goes on when it has ended") {
    val (begun, ended) = (new CountDownLatch(2), new AtomicInteger)
    val caller = Thread.currentThread
    new Thread(() => { begun.await(); caller.interrupt() }).start()
    intercept[InterruptedException] {
      SparkState.sideBySide("side", 2, 1 to 100) { _ =>
        begun.countDown()
        try Thread.sleep(60000)
        finally {
          Thread.interrupted()
          Thread.sleep(100)
          ended.incrementAndGet(): Unit
        }
      }
    }
    assert(ended.get == 2)
  }
}
