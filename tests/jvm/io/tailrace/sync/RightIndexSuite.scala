package io.tailrace.sync

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.Slow

/** The index against a plain map. */
final class RightIndexSuite extends AnyFunSuite {

  private def entriesOf(index: RightIndex, hash: Long): Seq[Int] =
    Iterator.iterate(index.first(hash))(index.next(hash, _)).takeWhile(_ >= 0).toSeq

  private def check(random: Random, hashes: Array[Long], steps: Int): Unit = {
    val index = new RightIndex
    // By section and hash.
    val rows = mutable.LinkedHashMap.empty[Int, mutable.HashMap[Long, mutable.HashSet[Long]]]
    var seq = 0L
    def any[T](values: collection.Seq[T]): T = values(random.nextInt(values.size))
    (1 to steps).foreach { _ =>
      random.nextInt(100) match {
        case n if n < 2 || rows.isEmpty => rows(index.newSection()) = mutable.HashMap.empty
        case 2 =>
          val section = any(rows.keys.toSeq)
          rows -= section
          index.dropSection(section)
        case n if n < 60 =>
          seq += 1
          val (section, hash) = (any(rows.keys.toSeq), any(hashes))
          index.insert(hash, section, seq)
          rows(section).getOrElseUpdate(hash & ~0xffffL, mutable.HashSet.empty) += seq
        case _ =>
          val (section, hash) = (any(rows.keys.toSeq), any(hashes))
          rows(section).get(hash & ~0xffffL).filter(_.nonEmpty).foreach { seqs =>
            val gone = any(seqs.toSeq)
            val at = entriesOf(index, hash).find(index.section(_) == section).get
            assert(index.has(at, gone))
            index.remove(at, gone)
            assert(!index.contains(hash, section, gone))
            seqs -= gone
            if (seqs.isEmpty) rows(section) -= hash & ~0xffffL
          }
      }
      val hash = any(hashes)
      val found = entriesOf(index, hash).map(index.section)
      val expected = rows.collect { case (section, byHash) if byHash.contains(hash & ~0xffffL) => section }
      assert(found.sorted == expected.toSeq.sorted)
    }
    assert(index.size == rows.values.map(_.size).sum)
    rows.foreach { case (section, byHash) =>
      byHash.foreach { case (hash, seqs) =>
        assert(seqs.forall(index.contains(hash, section, _)) && !index.contains(hash, section, seq + 1))
      }
    }
  }

  test("after random insertions, removals and dropped sections, the index is equal to a map") {
    (1 to 30).foreach { seed =>
      val random = new Random(seed)
      check(random, Array.fill(1000)(random.nextLong()), 5000)
    }
  }

  test("keys whose hashes or places collide are told apart") {
    (1 to 30).foreach { seed =>
      val random = new Random(seed)
      check(random, Array(0L, -1L, 1L << 16, 1L << 40, 0xffffL, Long.MinValue), 3000)
    }
  }

  test("a million rows of one key are as fast as others", Slow) {
    val index = new RightIndex
    val section = index.newSection()
    (1L to 1000000L).foreach(index.insert(7L << 30, section, _))
    assert(index.size == 1)
    val at = index.first(7L << 30)
    (1L to 1000000L).foreach(index.remove(at, _))
    assert(index.size == 0 && index.first(7L << 30) == -1)
  }

  test("numbers of dropped sections are used again, and the table doesn't grow") {
    val index = new RightIndex
    val random = new Random(1)
    val alive = mutable.Queue.empty[Int]
    (1 to 200000).foreach { _ =>
      val section = index.newSection()
      (1L to 5L).foreach(seq => index.insert(random.nextLong(), section, seq))
      alive.enqueue(section)
      if (alive.size > 100) index.dropSection(alive.dequeue())
    }
    assert(index.size == 500 && index.bytes <= (64L << 10))
  }

  test("more sections than there are numbers are refused") {
    val index = new RightIndex
    (1 until 0xffff).foreach(_ => index.newSection())
    assertThrows[IllegalArgumentException](index.newSection())
  }
}
