package io.tailrace.state

import java.nio.ByteBuffer
import java.util.HexFormat

import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

final class RunKeySuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  /** The first row of a page. */
  private case class Entry(kind: StoreKind, bucket: Long, key: Seq[Byte], time: Long, seq: Long)

  private def read(buffer: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    bytes
  }

  private def bytesOf(e: Entry): Array[Byte] = {
    val buffer = ByteBuffer.allocate(256)
    RunKey.write(buffer, e.kind, e.bucket, e.key.toArray, e.key.length, e.time, e.seq)
    read(buffer)
  }

  private def hex(e: Entry): String = HexFormat.of().formatHex(bytesOf(e))

  private val longs = Gen.oneOf(Gen.choose(-2L, 2L), Arbitrary.arbitrary[Long])

  /** None is the beginning of another. */
  private val keys = Gen.listOf(Gen.oneOf(1, 0x80, 0xff).map(_.toByte)).map(_ :+ 0.toByte)

  private def entries(kind: StoreKind): Gen[Entry] = for {
    bucket <- Gen.choose(-2L, 2L)
    key <- keys
    time <- longs
    seq <- longs.map(_ & Long.MaxValue)
  } yield Entry(kind, bucket, key, time, seq)

  test("a time-sorted page's key is store, bucket, time, seq, key") {
    val e = Entry(StoreKind.LeftTimeSorted, -1, Seq(0x61, 0, 0), 258, 3)
    assert(hex(e) == "01" + "7fffffffffffffff" + "8000000000000102" + "0000000000000003" + "610000")
  }

  test("a key-sorted page's key is store, bucket, key, time, seq") {
    val e = Entry(StoreKind.RightKeySorted, 2, Seq(0x61, 0, 0), -1, 3)
    assert(hex(e) == "03" + "8000000000000002" + "610000" + "7fffffffffffffff" + "0000000000000003")
  }

  test("the keys of a synced join's pages have the same layouts") {
    def entry(kind: StoreKind, key: Byte*) = Entry(kind, 1, key, 258, 3)
    val (bucket, time, seq) = ("8000000000000001", "8000000000000102", "0000000000000003")
    assert(hex(entry(StoreKind.HeldLeft, 0x61, 0, 0)) == "05" + bucket + time + seq + "610000")
    assert(hex(entry(StoreKind.HeldRight, 0x61, 0, 0)) == "06" + bucket + "610000" + time + seq)
    assert(hex(entry(StoreKind.JoinedRight)) == "07" + bucket + time + seq)
  }

  Seq(StoreKind.LeftTimeSorted, StoreKind.JoinedIndicator, StoreKind.HeldLeft).foreach { kind =>
    test(s"a ${kind.name} entry orders by bucket, time, seq, key") {
      forAll(entries(kind), entries(kind)) { (a, b) =>
        val expected = Seq(
          java.lang.Long.compare(a.bucket, b.bucket),
          java.lang.Long.compare(a.time, b.time),
          java.lang.Long.compare(a.seq, b.seq),
          java.util.Arrays.compareUnsigned(a.key.toArray, b.key.toArray)
        ).find(_ != 0).getOrElse(0)
        assert(
          Integer.signum(java.util.Arrays.compareUnsigned(bytesOf(a), bytesOf(b))) == Integer.signum(expected)
        )
      }
    }
  }

  Seq(StoreKind.LeftKeySorted, StoreKind.RightKeySorted, StoreKind.HeldRight).foreach { kind =>
    test(s"a ${kind.name} entry orders by bucket, key, time, seq") {
      forAll(entries(kind), entries(kind)) { (a, b) =>
        val expected = Seq(
          java.lang.Long.compare(a.bucket, b.bucket),
          java.util.Arrays.compareUnsigned(a.key.toArray, b.key.toArray),
          java.lang.Long.compare(a.time, b.time),
          java.lang.Long.compare(a.seq, b.seq)
        ).find(_ != 0).getOrElse(0)
        assert(
          Integer.signum(java.util.Arrays.compareUnsigned(bytesOf(a), bytesOf(b))) == Integer.signum(expected)
        )
      }
    }
  }

  StoreKind.all.foreach { kind =>
    test(s"${kind.name}: the first bytes of a key tell its store and bucket") {
      forAll(entries(kind)) { e =>
        val bytes = bytesOf(e)
        val buffer = ByteBuffer.wrap(bytes.take(RunKey.PrefixLength))
        assert(bytes.length == RunKey.FixedLength + e.key.length)
        assert(RunKey.isIn(buffer, kind, e.bucket))
        assert(!RunKey.isIn(buffer, kind, e.bucket + 1))
        StoreKind.all.filter(_ != kind).foreach(other => assert(!RunKey.isIn(buffer, other, e.bucket)))
      }
    }

    test(s"${kind.name}: the prefix is before all entries of its bucket and after all of the one before") {
      forAll(entries(kind)) { e =>
        val buffer = ByteBuffer.allocate(64)
        RunKey.writePrefix(buffer, kind, e.bucket)
        val prefix = read(buffer)
        assert(java.util.Arrays.compareUnsigned(prefix, bytesOf(e)) < 0)
        assert(java.util.Arrays.compareUnsigned(prefix, bytesOf(e.copy(bucket = e.bucket - 1))) > 0)
      }
    }
  }

  test("a time bound is before the entries of its time and after all earlier ones") {
    forAll(entries(StoreKind.LeftTimeSorted), longs) { (e, time) =>
      val buffer = ByteBuffer.allocate(64)
      RunKey.writeTimeBound(buffer, e.kind, e.bucket, time)
      assert((java.util.Arrays.compareUnsigned(read(buffer), bytesOf(e)) < 0) == (e.time >= time))
    }
  }

  Seq(StoreKind.LeftKeySorted, StoreKind.RightKeySorted).foreach { kind =>
    test(s"${kind.name}: a key bound is before the entries of its key and after all of lesser keys") {
      forAll(entries(kind), keys) { (e, key) =>
        val buffer = ByteBuffer.allocate(256)
        RunKey.writeKeyBound(buffer, e.kind, e.bucket, key.toArray)
        val atOrAfter = java.util.Arrays.compareUnsigned(e.key.toArray, key.toArray) >= 0
        assert((java.util.Arrays.compareUnsigned(read(buffer), bytesOf(e)) < 0) == atOrAfter)
      }
    }
  }
}
