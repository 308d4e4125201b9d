package io.tailrace.replay

import java.util.Arrays

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.TailraceStateException

final class RecordMetadataSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val partitions = Gen.choose(0, Int.MaxValue)
  private val offsets = Gen.choose(0L, RecordMetadata.OffsetLimit - 1)

  test("the golden vectors are encoded and decoded") {
    GoldenMetadata.records.foreach { r =>
      assert(
        Option(RecordMetadata.encode(r.pid, r.partition, r.offset)).map(_.toSeq) == r.tagged.map(_.toSeq)
      )
      (Seq(r.bytes) ++ r.tagged).foreach { bytes =>
        assert(RecordMetadata.isValid(bytes))
        assert(RecordMetadata.producerId(bytes) == r.pid)
        assert(RecordMetadata.partition(bytes) == r.partition)
        assert(RecordMetadata.offset(bytes) == r.offset)
      }
    }
  }

  test("a partition or offset out of range makes no bytes") {
    Seq(-1 -> 0L, 0 -> -1L, 0 -> Long.MaxValue, 0 -> RecordMetadata.OffsetLimit).foreach { case (p, o) =>
      assert(RecordMetadata.encode(1, p, o) == null)
    }
  }

  test("no text of 20 bytes is taken for metadata without a tag") {
    forAll(Gen.listOfN(20, Gen.choose(0x20.toChar, 0x7e.toChar))) { letters =>
      val bytes = letters.mkString.getBytes
      assert(!RecordMetadata.isPlausible(RecordMetadata.partition(bytes), RecordMetadata.offset(bytes)))
    }
    assert(RecordMetadata.isPlausible(1 << 20, 1764000000000000000L), "nanoseconds as offsets")
  }

  test("null, bytes of another length and negative parts aren't metadata") {
    assert(!RecordMetadata.isValid(null))
    GoldenMetadata.invalid.foreach(bytes => assert(!RecordMetadata.isValid(bytes), bytes.toSeq))
  }

  test("of one producer and partition, the later record has the greater bytes") {
    forAll(Gen.long, partitions, offsets, offsets) { (producer, partition, one, two) =>
      val a = RecordMetadata.encode(producer, partition, one)
      val b = RecordMetadata.encode(producer, partition, two)
      assert(Integer.signum(Arrays.compareUnsigned(a, b)) == java.lang.Long.compare(one, two))
      val later = RecordMetadata.later(a, b)
      assert(RecordMetadata.offset(later) == Math.max(one, two))
    }
  }

  test("later ignores null, and refuses two origins by an error that names both") {
    val a = RecordMetadata.encode(1, 2, 3)
    assert(RecordMetadata.later(null, a) eq a)
    assert(RecordMetadata.later(a, null) eq a)
    assert(RecordMetadata.later(null, null) == null)
    val untagged = a.drop(RecordMetadata.TagLength)
    val next = RecordMetadata.encode(1, 2, 4)
    assert((RecordMetadata.later(untagged, next) eq next) && (RecordMetadata.later(next, untagged) eq next))
    Seq(RecordMetadata.encode(1, 3, 3), RecordMetadata.encode(2, 2, 3)).foreach { other =>
      val error = intercept[TailraceStateException](RecordMetadata.later(a, other))
      assert(error.getCondition == "TAILRACE_METADATA_MIXED")
      assert(error.getMessageParameters.get("first") == "producer 1, partition 2")
    }
  }

  private def producerId(parts: Seq[String]): Long =
    ProducerIds.hash(parts(0), parts(1), parts(2), parts(3), parts(4))

  test("producer ids: the golden vectors") {
    GoldenMetadata.producers.foreach(p => assert(producerId(p.parts) == p.pid, p.parts))
  }

  test("a producer id depends on every part, but not on the order of the brokers, spaces and doubles") {
    val parts = Seq("sessions", "clicks", "b1:9092,b2:9092", "topic-1", "1")
    val same = Seq("b2:9092,b1:9092", " b1:9092 , b2:9092 ", "b1:9092,b2:9092,b1:9092", "b1:9092,,b2:9092")
    same.foreach(brokers => assert(producerId(parts.updated(2, brokers)) == producerId(parts)))
    parts.indices.foreach(i => assert(producerId(parts.updated(i, parts(i) + "x")) != producerId(parts)))
    assert(producerId(Seq("ab", "c", "", "", "")) != producerId(Seq("a", "bc", "", "", "")))
  }
}
