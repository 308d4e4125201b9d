package io.tailrace.state

import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.unsafe.Platform
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.testkit.{RowFixture, TestRow}

final class RowBufferSuite extends AnyFunSuite with RowFixture with ScalaCheckPropertyChecks {
  private val anyRows = TestRow.rows(Arbitrary.arbitrary[Long], emptyKeys = true)

  private def contents(buffer: RowBuffer): Seq[TestRow] =
    (0 until buffer.size).map(TestRow.read(buffer, _))

  test("rows come back as they were appended, numbered from 0") {
    forAll(anyRows) { rows =>
      val buffer = newBuffer()
      assert(buffer.isEmpty)
      assert(rows.map(_.appendTo(buffer)) == rows.indices)
      assert(contents(buffer) == rows)
      buffer.close()
    }
  }

  test("more rows than the first index and the first block hold come back") {
    val rows = Vector.tabulate(5000)(i => TestRow.of(s"key $i", -i.toLong, i.toLong, "v" * (i % 700)))
    val buffer = bufferOf(rows)
    assert(contents(buffer) == rows)
    assert(usedMemory > 2 * RowMemory.BlockBytes)
  }

  test("a prepared buffer needs no memory for its first rows") {
    val buffer = newBuffer()
    buffer.prepare()
    val taken = usedMemory
    assert(taken >= RowMemory.BlockBytes)
    (1 to 1000).foreach(i => TestRow.of(s"key $i", 1, i.toLong).appendTo(buffer))
    buffer.clear()
    buffer.prepare()
    assert(usedMemory == taken)
  }

  test("a row for which Spark has no memory is tried once more if room was made, and fails otherwise") {
    val memory = new RowMemory(TaskMemory.create(RowMemory.BlockBytes + (128L << 10)))
    val rows =
      (0 until 3).map(i => TestRow(TestRow.key(s"k$i"), i.toLong, i.toLong, Vector.fill(150 << 10)(1)))
    var asked = 0
    lazy val buffer: RowBuffer = new RowBuffer(memory, () => { asked += 1; buffer.release(); asked < 2 })
    rows.take(2).foreach(_.appendTo(buffer))
    assert(asked == 1 && contents(buffer) == Seq(rows(1)))
    intercept[RowMemoryExhausted](rows(2).appendTo(buffer))
    assert(asked == 2 && buffer.isEmpty)
  }

  test("a value larger than a block comes back, between small ones") {
    val large = TestRow(TestRow.key("b"), 2, 2, Vector.tabulate(3 * RowMemory.BlockBytes.toInt)(_.toByte))
    val rows = Vector(TestRow.of("a", 1, 1, "x"), large, TestRow.of("c", 3, 3, "y"))
    assert(contents(bufferOf(rows)) == rows)
  }

  test("a value that exactly fills its block comes back") {
    val key = TestRow.key("abcdef")
    val fits = RowMemory.BlockBytes.toInt - RowLayout.HeaderLength - key.size
    val buffer = bufferOf(
      TestRow(key, 1, 1, Vector.fill(fits)(1.toByte)),
      TestRow(key, 2, 2, Vector.fill(fits)(2.toByte))
    )
    assert(contents(buffer).map(_.value.toSet) == Seq(Set(1.toByte), Set(2.toByte)))
    assert(usedMemory < 3 * RowMemory.BlockBytes)
  }

  test("a prefix is the key's first eight bytes, unsigned, padded with zeros") {
    val keys = Seq[Seq[Int]](Nil, Seq(1), Seq(0xff, 0, 0), 1 to 8, 1 to 9)
    val expected = Seq(0L, 1L << 56, 0xffL << 56, 0x0102030405060708L, 0x0102030405060708L)
    keys.zip(expected).foreach { case (k, prefix) =>
      val key = k.map(_.toByte).toArray
      val buffer = bufferOf(TestRow(key.toVector, 0, 0, Vector.empty))
      assert(buffer.keyPrefix(0) == prefix)
    }
  }

  test("the given length of the key counts, not that of its array") {
    val buffer = newBuffer()
    buffer.append(Array[Byte](1, 2, 3), 2, 5, 6, Array[Byte](7, 8), TestRow.At + 1, 1)
    assert(TestRow.read(buffer, 0) == TestRow(Vector(1, 2), 5, 6, Vector(8)))
    assert(buffer.keyPrefix(0) == 0x0102L << 48)
  }

  test("rows are in the bytes of the layout, also where another row was before") {
    forAll(anyRows, anyRows) { (before, rows) =>
      val buffer = bufferOf(before)
      buffer.clear()
      rows.foreach(_.appendTo(buffer))
      rows.indices.foreach { i =>
        val found = new Array[Byte](rows(i).layout.length)
        Platform.copyMemory(buffer.base(i), buffer.at(i), found, TestRow.At, found.length.toLong)
        // What a value ends with doesn't matter: only the padding of keys is compared.
        val end = found.length - (7 & -rows(i).value.size)
        assert(found.take(end).toSeq == rows(i).layout.take(end).toSeq)
      }
      buffer.close()
    }
  }

  test("a row is copied whole, or without its key") {
    forAll(anyRows) { rows =>
      val (whole, bare) = (newBuffer(), newBuffer())
      rows.zipWithIndex.foreach { case (row, i) =>
        assert(whole.appendRow(row.layout, TestRow.At) == i)
        assert(bare.appendWithoutKey(row.layout, TestRow.At) == i)
        assert(whole.keyPrefix(i) == RowLayout.keyPrefix(row.layout, TestRow.At))
        assert(bare.keyPrefix(i) == 0)
      }
      assert(contents(whole) == rows)
      assert(contents(bare) == rows.map(_.copy(key = Vector.empty)))
      assert(rows.indices.map(whole.time) == rows.map(_.time))
      assert(rows.indices.map(bare.time) == rows.map(_.time))
      whole.close()
      bare.close()
    }
  }

  test("keys and values compare as their bytes do") {
    forAll(anyRows) { rows =>
      val buffer = bufferOf(rows)
      for (a <- rows.indices; b <- rows.indices) {
        val expected = Integer.signum(TestRow.byteOrder.compare(rows(a).key, rows(b).key))
        assert(Integer.signum(buffer.compareKeys(a, b)) == expected)
        assert(
          Integer.signum(buffer.compareValues(a, b)) ==
            Integer.signum(TestRow.byteOrder.compare(rows(a).value, rows(b).value))
        )
      }
      buffer.close()
    }
  }

  test("an empty key is less than every other, also than one of zeros") {
    val zeros = (1 to 12).map(n => Vector.fill(n)(0.toByte))
    zeros.foreach { key =>
      val buffer = bufferOf(TestRow(Vector.empty, 1, 1, Vector.empty), TestRow(key, 1, 2, Vector.empty))
      assert(buffer.compareKeys(0, 1) < 0)
      assert(buffer.compareKeys(1, 0) > 0)
    }
  }

  test("a buffer is empty after clear, keeps at most one block, and can be filled again") {
    forAll(Gen.listOfN(3, anyRows)) { batches =>
      val buffer = newBuffer()
      batches.foreach { rows =>
        buffer.clear()
        assert(buffer.isEmpty && buffer.bytes == 0)
        rows.foreach(_.appendTo(buffer))
        assert(contents(buffer) == rows)
      }
      buffer.close()
    }
    val buffer = newBuffer()
    (1 to 5).foreach(i =>
      TestRow(TestRow.key("k"), 0, i.toLong, Vector.fill(200000)(0.toByte)).appendTo(buffer)
    )
    val before = usedMemory
    buffer.clear()
    assert(usedMemory == before - 4 * RowMemory.BlockBytes)
  }

  test("bytes grow with the rows") {
    val buffer = newBuffer()
    assert(buffer.bytes == 0)
    TestRow.of("a", 0, 0, "x" * 1000).appendTo(buffer)
    val one = buffer.bytes
    assert(one > 1000 && one < 1200)
    TestRow.of("a", 0, 1, "x" * 1000).appendTo(buffer)
    assert(buffer.bytes == 2 * one)
  }

  test("close gives all memory back; a closed buffer can be filled again") {
    val buffer = bufferOf(Vector.tabulate(3000)(i => TestRow.of("k", i.toLong, i.toLong, "x" * 900)))
    buffer.close()
    assert(usedMemory == 0)
    assert(buffer.isEmpty && buffer.bytes == 0)
    buffer.close()
    TestRow.of("again", 1, 1, "v").appendTo(buffer)
    assert(contents(buffer) == Seq(TestRow.of("again", 1, 1, "v")))
  }
}
