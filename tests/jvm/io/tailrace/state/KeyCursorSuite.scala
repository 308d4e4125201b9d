package io.tailrace.state

import java.io.File
import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.SparkThrowable
import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RunFixture, Slow, TestRow}

/** [[KeyCursor]] and [[PageFilters]]: what is found by filters is what is there. */
final class KeyCursorSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  import StoreKind.{LeftKeySorted, LeftTimeSorted, RightKeyPages, RightKeySorted}

  // By another program, from the text of formats.md.
  private val Golden = Seq(
    "21000a2404039100",
    "1001441100320188",
    "01000a0184120084",
    "80c0402030100006",
    "0200009c0800005c",
    "000a064830404081",
    "02100004aa0a0880",
    "80000905040a1202",
    "8480c00401430060"
  )

  // A smaller case may no longer be one: no key is the beginning of another.
  private implicit def unshrunk[T]: Shrink[T] = Shrink.withLazyList(_ => LazyList.empty)

  private def key(i: Int): Vector[Byte] = TestRow.key(f"a common beginning $i%06d")
  private def row(i: Int, seq: Long): TestRow = TestRow(key(i), seq, seq, Vector.fill(656)(i.toByte))

  /** Of each second key a row, 23 rows a page. */
  private def evenRows(n: Int): Vector[TestRow] = Vector.tabulate(n)(i => row(2 * i, i.toLong))

  private def inOrder(rows: Seq[TestRow]): Vector[TestRow] =
    rows.toVector.sorted(Ordering.by[TestRow, Vector[Byte]](_.key)(TestRow.byteOrder).orElseBy(_.time))

  private def probe(key: Vector[Byte]): Array[Byte] = TestRow(key, 0, 0, Vector.empty).layout

  // One for all keys, as a merge has it.
  private val wantedKey = new SoughtKey

  private def sought(probe: Array[Byte]): SoughtKey = {
    wantedKey.set(probe, TestRow.At)
    wantedKey
  }

  /** The rows of a key, but not more than `most` of them. */
  private def find(cursor: KeyCursor, key: Vector[Byte], most: Int = Int.MaxValue): Vector[TestRow] = {
    val wanted = probe(key)
    val found = new ArrayBuffer[TestRow]
    if (cursor.advanceTo(sought(wanted))) {
      val rows = cursor.rows
      while (found.size < most && rows.isValid && rows.compareKey(wanted, TestRow.At) == 0) {
        found += TestRow.read(rows)
        rows.next()
      }
      cursor.settle()
    }
    found.toVector
  }

  private def within[T](live: LiveSection)(body: KeyCursor => T): T = {
    val cursor = new KeyCursor(live)
    try body(cursor)
    finally cursor.close()
  }

  private def check(all: Vector[TestRow], live: LiveSection, probes: Seq[Vector[Byte]]): Unit = {
    val byKey = all.groupBy(_.key)
    within(live) { cursor =>
      probes.sorted(TestRow.byteOrder).foreach { key =>
        val expected = byKey.getOrElse(key, Vector.empty)
        val prefix = RowLayout.keyPrefix(probe(key), TestRow.At)
        // A merge asks neither for keys below the prefix, nor for keys behind the end.
        if (cursor.isAtEnd || java.lang.Long.compareUnsigned(cursor.keyPrefix, prefix) > 0)
          assert(expected.isEmpty)
        else assert(find(cursor, key) == expected)
      }
    }
  }

  test("finds what a scan finds, for few keys and for many", Slow) {
    val part = Gen.oneOf("", "a", "b", "\u0001", "common prefix ", "hot")
    val keys = Gen.listOf(part).map(p => TestRow.key(p.mkString))
    val sized = Gen.zip(keys, Gen.frequency(9 -> Gen.choose(0, 900), 1 -> Gen.choose(0, 30000)))
    val some = Gen.choose(1, 500).flatMap(Gen.listOfN(_, sized))
    forAll(some, Gen.choose(1, 60).flatMap(Gen.listOfN(_, keys)), minSuccessful(40)) { (found, probes) =>
      val all = inOrder(found.zipWithIndex.map { case ((key, size), i) =>
        TestRow(key, i.toLong, i.toLong, Vector.fill(size)(i.toByte))
      })
      val live = newSection(RightKeySorted, all)
      check(all, live, probes.distinct)
      check(all, live, (probes ++ all.map(_.key)).distinct)
      closeRuns()
    }
  }

  test("finds each row of many pages, by each kind of which keys are probed") {
    val all = evenRows(2000)
    for (kind <- Seq(LeftKeySorted, RightKeySorted)) {
      val live = newSection(kind, all)
      assert(PageFilters.of(live).map(_.close()).nonEmpty)
      check(all, live, new Random(7).shuffle((-1 to 4001).toVector).take(50).map(key))
      // So many that the filters are left aside on the way.
      check(all, live, (-1 to 4001).map(key))
      check(all, live, all.map(_.key))
    }
  }

  test("a key's rows may be taken in pieces, also when they fill several pages") {
    val hot = Vector.tabulate(250)(i => row(7, 10L + i))
    val all = inOrder((evenRows(1).map(_.copy(time = 0)) ++ hot) :+ row(9, 1000) :+ row(11, 1001))
    within(newSection(RightKeySorted, all)) { cursor =>
      val pieces = Iterator.continually(find(cursor, key(7), most = 20)).takeWhile(_.nonEmpty).toVector
      assert(pieces.flatten == hot && pieces.size == 13)
      assert(find(cursor, key(8)).isEmpty && !cursor.isAtEnd)
      assert(find(cursor, key(11)).map(_.seq) == Vector(1001L))
      assert(cursor.isAtEnd)
    }
  }

  test("filters know all keys, and hardly another one") {
    val all = evenRows(20000)
    val filters = PageFilters.of(newSection(RightKeySorted, all)).get
    val held =
      try
        (0 until 40000).filter { i =>
          val wanted = probe(key(i))
          filters.mayHold(sought(wanted))
        }
      finally filters.close()
    val (there, others) = held.partition(_ % 2 == 0)
    assert(there.size == all.size)
    assert(others.size < 60, "of 20,000: about one in 1,000 is expected")
  }

  test("the filters of a section are behind all sections of a run, and no manifest has them") {
    val rows = evenRows(500)
    val writer = new RunWriter(new File(directory, "a.run"))
    Seq(LeftTimeSorted -> 1L, LeftKeySorted -> 1L, LeftKeySorted -> 2L, RightKeySorted -> -1L).foreach {
      case (kind, bucket) =>
        writer.begin(kind, bucket)
        rows.foreach(r => writer.append(r.layout, TestRow.At))
        writer.end()
    }
    writer.finish()
    val listed = writer.sections
    writer.close()
    assert(
      listed.map(s => (s.store, s.bucket, s.rows)) == Seq(
        ("left-time-sorted", 1, 500),
        ("left-key-sorted", 1, 500),
        ("left-key-sorted", 2, 500),
        ("right-key-sorted", -1, 500)
      )
    )
    opening(new File(directory, "a.run"), listed).foreach { live =>
      assert(TestRow.all(live) == rows)
      val filters = PageFilters.of(live)
      filters.foreach(_.close())
      assert(filters.nonEmpty != live.section.kind.timeSorted)
      if (filters.nonEmpty) check(rows, live, Seq(3, 4, 500, 998, 999).map(key))
    }
  }

  test("a section of few pages has no filters") {
    assert(PageFilters.of(newSection(RightKeySorted, evenRows(7 * 23))).isEmpty)
    val live = newSection(RightKeySorted, evenRows(7 * 23))
    check(evenRows(7 * 23), live, Seq(0, 1, 2, 320, 321, 322).map(key))
  }

  test("the bytes of filters are those of the documentation") {
    // Two rows of a key, and one of another, on each page.
    def page(i: Int) = Vector(0, 0, 1).zipWithIndex.map { case (k, n) =>
      TestRow(TestRow.key(s"$i-$k"), 10L * i + n, 100L * i + n, Vector.fill(5000)(1.toByte))
    }
    val pages = (0 until 9).map(page)
    val live = newSection(RightKeySorted, pages.flatten)
    val filters = new RunCursor(live.local, RightKeyPages, 0)
    try {
      filters.first()
      val rows = TestRow.rest(filters)
      assert(rows.map(r => (r.key, r.time, r.seq)) == pages.map(p => (p.last.key, p.last.time, p.last.seq)))
      rows.zip(pages).foreach { case (filter, p) =>
        val (first, bits) = filter.value.splitAt(32)
        assert(first == p.head.copy(value = Vector.empty).layout.toVector)
        assert(bits.size == 8 && bits.map(b => Integer.bitCount(b & 0xff)).sum <= 12)
      }
      assert(rows.map(_.value.drop(32).map(b => f"$b%02x").mkString) == Golden)
    } finally filters.close()
  }

  /** A run of raw pages and of these filters for them. */
  private def runOf(pages: Seq[TestRow], filters: Seq[TestRow]): LiveSection = {
    val file = new File(directory, "damaged.run")
    val writer = BlockCache.ofExecutor.newWriter()
    try {
      writer.open(file.getPath)
      for ((kind, rows) <- Seq(RightKeySorted -> pages, RightKeyPages -> filters); row <- rows) {
        val entry = ByteBuffer.allocate(256)
        RunKey.write(entry, kind, 0, row.key.toArray, row.key.size, row.time, row.seq)
        val head = ByteBuffer.allocate(8).order(java.nio.ByteOrder.LITTLE_ENDIAN).putInt(1).putInt(8)
        writer.put(entry.array.take(entry.limit()), head.array ++ row.layout)
      }
      writer.finish()
    } finally writer.close()
    opening(file, Seq(Section(RightKeySorted.name, 0, pages.size.toLong, 0, 9, 1L << 20))).head
  }

  private def assertCorrupt(filterOf: TestRow => Vector[Byte]): Unit = {
    val page = row(1, 1)
    val live = runOf(Seq(page), Seq(page.copy(value = filterOf(page))))
    intercept[Exception](within(live)(cursor => find(cursor, key(1)))) match {
      case e: SparkThrowable => assert(e.getCondition == "TAILRACE_STATE_LOCAL_FILE")
      case e => throw e
    }
    closeRuns()
  }

  private val everyKey = Vector.fill(8)(0xff.toByte)

  test("a run with filters by hand is read") {
    val pages = Seq(row(1, 1), row(3, 3))
    def filter(of: TestRow): TestRow =
      of.copy(value = of.copy(value = Vector.empty).layout.toVector ++ everyKey)
    within(runOf(pages, pages.map(filter)))(cursor => assert(find(cursor, key(3)) == pages.drop(1)))
  }

  test("a filter that is shorter than it says, or of a page that isn't there, is an error") {
    assertCorrupt(_ => Vector.empty)
    assertCorrupt(_ => Vector.fill(16)(0.toByte))
    assertCorrupt(_.copy(value = Vector.empty).layout.toVector)
    assertCorrupt(page =>
      page.copy(value = Vector.empty).layout.toVector.updated(19, 0x7f.toByte) ++ everyKey
    )
    assertCorrupt(page =>
      page.copy(value = Vector.empty).layout.toVector.updated(19, 0x80.toByte) ++ everyKey
    )
    assertCorrupt(_ => row(0, 0).copy(value = Vector.empty).layout.toVector ++ everyKey)
    assertCorrupt(_ => row(2, 2).copy(value = Vector.empty).layout.toVector ++ everyKey)
  }
}
