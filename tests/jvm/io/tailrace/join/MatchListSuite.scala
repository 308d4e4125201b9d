package io.tailrace.join

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.Buffers

class MatchListSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val NoKey = Array.emptyByteArray

  private def listOf(entries: (Long, Byte)*): MatchList =
    new MatchList(Buffers.of(entries.map { case (time, value) => (NoKey, time, Array(value)) }))

  private def matchesOf(list: MatchList, left: Int): Seq[Int] =
    list.ordered(left).take(list.count(left)).toSeq

  test("a left row without a match has none") {
    val list = listOf()
    list.reset(2)
    assert(matchesOf(list, 0) == Nil && matchesOf(list, 1) == Nil)
  }

  test("matches come by time, then by content as unsigned bytes") {
    val list = listOf((7, 0), (5, -1), (5, 1), (6, 0))
    list.reset(1)
    (0 to 3).foreach(list.add(0, _))
    assert(matchesOf(list, 0) == Seq(2, 1, 3, 0))
  }

  test("a right row can belong to several left rows") {
    val list = listOf((5, 1), (6, 1))
    list.reset(3)
    list.add(2, 1)
    list.add(0, 1)
    list.add(2, 0)
    assert(matchesOf(list, 0) == Seq(1))
    assert(matchesOf(list, 1) == Nil)
    assert(matchesOf(list, 2) == Seq(0, 1))
  }

  test("reset forgets") {
    val list = listOf((5, 1))
    list.reset(1)
    list.add(0, 0)
    list.reset(2)
    assert(matchesOf(list, 0) == Nil && matchesOf(list, 1) == Nil)
    list.add(1, 0)
    assert(matchesOf(list, 1) == Seq(0))
  }

  test("groups of any size are ordered, and kept apart") {
    forAll { (entries: Vector[(Byte, Byte)], lefts: Vector[Byte]) =>
      val rights = Vector.fill(30)(entries).flatten.take(2000)
      val list = listOf(rights.map { case (time, value) => (time.toLong, value) }: _*)
      val owner = (r: Int) => if (lefts.isEmpty) 0 else Math.abs(lefts(r % lefts.size) % 3)
      list.reset(3)
      rights.indices.foreach(r => list.add(owner(r), r))
      (0 to 2).foreach { left =>
        val expected = rights.indices
          .filter(owner(_) == left)
          .sortBy(r => (rights(r)._1, rights(r)._2 & 0xff))
          .map(rights)
        assert(matchesOf(list, left).map(rights) == expected)
      }
    }
  }
}
