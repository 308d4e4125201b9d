package io.tailrace.ops.rewrite

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.TempDirectory

final class ClaimSuite extends AnyFunSuite with TempDirectory {
  private def checkpoint = new Path(directory.toURI)
  private def claim() = new Claim(checkpoint, new Configuration(false), "a rescaling")

  test("the one that has begun last is the newest, whether those before it live or not") {
    val first = claim()
    assert(first.isNewest)
    val second = claim()
    assert(!first.isNewest && second.isNewest)
    val names = new File(directory, "tailrace-rescale").list.filter(_.forall(_.isDigit))
    assert(names.toSeq == Seq("2"))
  }

  test("of many at once each has a number of its own, and one is the newest") {
    val all = java.util.concurrent.ConcurrentHashMap.newKeySet[Claim]()
    val threads = Seq.fill(8)(new Thread(() => all.add(claim()): Unit))
    threads.foreach(_.start())
    threads.foreach(_.join())
    assert(all.size == 8 && all.toArray(Array.empty[Claim]).count(_.isNewest) == 1)
  }

  test("in one JVM the second is refused, and the next one isn't") {
    def alone[T](body: => T) = Claim.alone(checkpoint, new Configuration(false))(body)
    assert(alone(alone(())) == Some(None))
    intercept[IllegalStateException](alone(throw new IllegalStateException))
    assert(alone(1) == Some(1))
  }
}
