package io.tailrace.state

import java.nio.ByteBuffer

import org.scalatest.funsuite.AnyFunSuite

final class PageBufferSuite extends AnyFunSuite {
  private def bytes(n: Int): Array[Byte] = Array.tabulate(n)(i => (i * 31 + n).toByte)

  /** As RocksDB does: fills what fits and tells the whole length. */
  private def fill(from: Array[Byte])(into: ByteBuffer): Int = {
    val fits = Math.min(from.length, into.remaining)
    into.put(from, 0, fits)
    into.flip()
    from.length
  }

  test(
    "what is read comes whole onto the heap, also if it is larger than the buffer or smaller than the last"
  ) {
    val buffer = PageBuffer.take()
    Seq(10, PageBuffer.Capacity, PageBuffer.Capacity + 1, 5, 3 * PageBuffer.Capacity, 0).foreach { n =>
      assert(buffer.fromNative(fill(bytes(n))(_)) == n)
      assert(buffer.bytes.take(n).sameElements(bytes(n)))
    }
  }

  test("a page that fits is read by one call, a larger one by two") {
    val buffer = PageBuffer.take()
    def callsFor(n: Int): Int = {
      var calls = 0
      buffer.fromNative { into =>
        calls += 1
        fill(bytes(n))(into)
      }
      calls
    }
    assert(callsFor(PageBuffer.Capacity) == 1)
    assert(callsFor(PageBuffer.Capacity + 1) == 2)
    assert(callsFor(PageBuffer.Capacity + 1) == 1)
  }

  test("RocksDB gets exactly the bytes on the heap") {
    val buffer = PageBuffer.take()
    Seq(1, PageBuffer.Capacity, 7).foreach { n =>
      System.arraycopy(bytes(n), 0, buffer.bytes, 0, n)
      val native = buffer.toNative(n)
      assert(native.isDirect && native.remaining == n)
      val found = new Array[Byte](n)
      native.get(found)
      assert(found.sameElements(bytes(n)))
    }
  }

  test("a buffer that grows keeps its content") {
    val buffer = PageBuffer.take()
    System.arraycopy(bytes(100), 0, buffer.bytes, 0, 100)
    buffer.ensure(PageBuffer.Capacity * 2)
    assert(buffer.bytes.take(100).sameElements(bytes(100)))
    assert(buffer.toNative(PageBuffer.Capacity * 2).remaining == PageBuffer.Capacity * 2)
  }

  test("a buffer that was given back is taken again, once, but not one that has grown") {
    val taken = Seq.fill(100)(PageBuffer.take())
    assert(taken.distinct.size == taken.size)
    taken.head.ensure(PageBuffer.Capacity + 1)
    taken.take(2).foreach(PageBuffer.giveBack)
    assert(PageBuffer.take() eq taken(1))
    assert(!taken.contains(PageBuffer.take()))
  }
}
